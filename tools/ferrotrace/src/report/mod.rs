// SPDX-License-Identifier: GPL-2.0

//! Reports on recordings: tables of counts and times as text, a page of HTML with a timeline, or a
//! flame graph.
//!
//! [`collect`] takes the merged records once, and hands them to [`tables`] and [`timeline`];
//! [`stacks`] makes the flame graph. Memory and the size of the page are bounded, however long the
//! recording is. Names beyond a number of them are added up as "others". Items without room are
//! drawn as density.

pub mod collect;
pub mod flame;
pub mod html;
pub mod items;
pub mod stacks;
pub mod tables;
pub mod timeline;
