// SPDX-License-Identifier: GPL-2.0

//! Objects that are made up, of every version. `tools/testing/host/tests` has those that compilers made.

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
