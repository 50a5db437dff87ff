// SPDX-License-Identifier: GPL-2.0
/*
 * Filter around the kernel's instruction decoder: records of 16 bytes in, answers of 8 bytes out.
 *
 * A record is the number of bytes, 1 to 15, and the bytes. An answer is
 *	the length, or 0 when it was refused
 *	1 if there is a RIP-relative operand
 *	the offset of the opcode's last byte
 *	the offset of the displacement, and its size
 *	the size of the immediate, both parts
 *	the size of the prefix of forced emulation
 *	1, if there was no more data
 * Compiled with the sources of the kernel's tree, see src/kernel.rs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <asm/insn.h>
#include <inat.c>
#include <insn.c>

#define BLOCK	1024

struct record {
	unsigned char len;
	unsigned char bytes[15];
};

struct answer {
	unsigned char len;
	unsigned char rip_relative;
	unsigned char opcode_at;
	unsigned char disp_at;
	unsigned char disp_len;
	unsigned char imm_len;
	unsigned char forced;
	unsigned char no_data;
};

static void decode(const struct record *record, struct answer *answer)
{
	struct insn insn;
	int err;

	memset(answer, 0, sizeof(*answer));
	err = insn_decode(&insn, record->bytes, record->len, INSN_MODE_64);
	if (err) {
		answer->no_data = err == -ENODATA;
		return;
	}
	answer->len = insn.length;
	answer->rip_relative = insn_rip_relative(&insn) != 0;
	answer->opcode_at = insn_offset_opcode(&insn) + insn.opcode.nbytes - 1;
	answer->disp_at = insn_offset_displacement(&insn);
	answer->disp_len = insn.displacement.nbytes;
	answer->imm_len = insn.immediate.nbytes + insn.immediate2.nbytes;
	answer->forced = insn.emulate_prefix_size;
}

int main(void)
{
	static struct record records[BLOCK];
	static struct answer answers[BLOCK];
	size_t n, i;

	/* A short block is the last one. */
	while ((n = fread(records, sizeof(*records), BLOCK, stdin)) > 0) {
		for (i = 0; i < n; i++)
			decode(&records[i], &answers[i]);
		if (fwrite(answers, sizeof(*answers), n, stdout) != n || fflush(stdout))
			return 1;
	}
	return ferror(stdin) != 0;
}
