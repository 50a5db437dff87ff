// SPDX-License-Identifier: GPL-2.0

//! KUnit tests of the code that patches and makes code. They run at boot.

mod exec_pool;
mod owner_lock;
mod text;
mod try_lock;
