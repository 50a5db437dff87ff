// SPDX-License-Identifier: GPL-2.0

//! A report on a recording: tables of what happened how often and how long, as text, or with a timeline as a page of HTML.
//!
//! [`collect`] takes the merged records once, and hands them to [`tables`] and [`timeline`]. Memory and the size of the page are
//! bounded, however long the recording is: names beyond a number of them are added up as "others", and what there is no room to
//! draw is drawn as density.

pub mod collect;
pub mod html;
pub mod tables;
pub mod timeline;
