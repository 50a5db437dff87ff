/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Texts for the tests of klog_printk(), made on both sides: the including file defines TEXT(number,
 * format, ...).
 */
TEXT(0, "plain");
TEXT(1, "%s-%d-%u-%#x-%lld-%c-%%", "text", -5, 7U, 255, -1LL << 40, 'c');
TEXT(2, "%8.3d|%-10s|%10s|%.*s|%5c|", 42, "left", "right", 3, "cut", 'x');
TEXT(3, "%s", "");
TEXT(4, "%1022d", 1);
TEXT(5, "%1023d", 2);
TEXT(6, "%1024d", 3);
TEXT(7, "%5000d", 4);
TEXT(8, "%1000d%s", 5, "0123456789012345678901234567890123456789");
#undef TEXT
