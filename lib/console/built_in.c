/* SPDX-License-Identifier: Apache-2.0 */
#include "console/built_in.h"

const char weft_built_in[] = "[weft]\n"
                             "defaults = ops check rules device:cpu through_host\n";
