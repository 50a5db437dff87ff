/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _FERROTRACE_GKHI_POINTS_H
#define _FERROTRACE_GKHI_POINTS_H

struct gkhook;

/* Registers hook points, and logs each that is refused. Context: process, during boot or module init. */
void gkh_identify_points(struct gkhook *const *points, unsigned int count);

#endif /* _FERROTRACE_GKHI_POINTS_H */
