// SPDX-License-Identifier: GPL-2.0

//! Tests with invented objects of every version. `tools/testing/host/tests` uses those of
//! compilers.

mod files;
mod image;
mod merges;
mod profiles;
mod refused;

use super::*;
use image::objects;
use image::Fun;
use image::Image;
use image::Object;
use proptest::prelude::*;
