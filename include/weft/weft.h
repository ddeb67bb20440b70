/* SPDX-License-Identifier: Apache-2.0 */
/* All of weft's public interface. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/base.h>
#include <weft/device.h>
#include <weft/execute.h>
#include <weft/files.h>
#include <weft/graph.h>
#include <weft/hf.h>
#include <weft/marks.h>
#include <weft/mesh.h>
#include <weft/op.h>
#include <weft/options.h>
#include <weft/pairs.h>
#include <weft/params.h>
#include <weft/pass.h>
#include <weft/plugin.h>
#include <weft/random.h>
#include <weft/review.h>
#include <weft/service.h>
#include <weft/store.h>

#endif
