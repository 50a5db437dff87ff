// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the code in the image. They run at boot.

mod blacklist;
mod calls;
