# SPDX-License-Identifier: Apache-2.0
# dh --with weft: dh_weft before control files are made.
use warnings;
use strict;
use Debian::Debhelper::Dh_Lib;

insert_before('dh_gencontrol', 'dh_weft');

1;
