// SPDX-License-Identifier: GPL-2.0
#include "reader.h"

bool map_buffer(struct mapped *m, unsigned int cpu)
{
	char name[16];
	void *p;

	memset(m, 0, sizeof(*m));
	snprintf(name, sizeof(name), "cpu%u", cpu);
	m->fd = open_file(name, O_RDWR);
	if (m->fd < 0)
		return false;
	p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, m->fd, RELAY_FAST_CTL);
	if (p == MAP_FAILED)
		return false;
	m->ctl = p;
	if (m->ctl->magic != RELAY_FAST_MAGIC || m->ctl->version != RELAY_FAST_VERSION ||
	    m->ctl->cpu != cpu || m->ctl->mask != m->ctl->subbuf_size * m->ctl->n_subbufs - 8)
		return false;
	m->bytes = (m->ctl->subbuf_size * m->ctl->n_subbufs + 4095) & ~4095ul;
	p = mmap(NULL, m->bytes, PROT_READ, MAP_SHARED, m->fd, RELAY_FAST_DATA);
	if (p == MAP_FAILED)
		return false;
	m->data = p;
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, m->fd, RELAY_FAST_CONSUMER);
	if (p == MAP_FAILED)
		return false;
	m->reader = p;
	return true;
}

void unmap_buffer(struct mapped *m)
{
	munmap((void *)m->ctl, 4096);
	munmap((void *)m->data, m->bytes);
	munmap(m->reader, 4096);
	close(m->fd);
}

const struct relay_fast_record *record_at(const struct mapped *m, uint64_t position)
{
	return (const void *)(m->data + (position & m->ctl->mask));
}

uint64_t produced(const struct mapped *m)
{
	return relay_fast_produced(m->ctl);
}

uint64_t consumed(const struct mapped *m)
{
	return __atomic_load_n(&m->reader->consumed, __ATOMIC_ACQUIRE);
}

void set_consumed(struct mapped *m, uint64_t position)
{
	__atomic_store_n(&m->reader->consumed, position, __ATOMIC_RELEASE);
}

#define WRONG(s, record, ...) ({						\
	fprintf(stderr, "# cpu%u, record %llu (len %u, type %#x, flags %#x): ",	\
		(s)->cpu, (unsigned long long)(s)->records,			\
		(record)->len, (record)->type, (record)->flags);		\
	fprintf(stderr, __VA_ARGS__);						\
	fputc('\n', stderr);							\
	(s)->bad = true;							\
	false;									\
})

bool see(struct seen *s, const struct relay_fast_record *record)
{
	bool timed = record->flags & RELAY_FAST_TIMED, discarded = record->flags & RELAY_FAST_DISCARDED;
	unsigned int ctx = record->type & 3, low = record->type >> 2, seq;
	const uint8_t *data = (const uint8_t *)(record + 1);
	struct fst_plan plan;
	uint8_t *want;

	if (record->flags & ~(RELAY_FAST_TIMED | RELAY_FAST_DISCARDED))
		return WRONG(s, record, "unknown flags");
	if (record->len > 1u << 24)
		return WRONG(s, record, "too long to be true");
	if (timed) {
		uint64_t time;

		memcpy(&time, data, sizeof(time));
		data += sizeof(time);
		if (time < s->last_time)
			return WRONG(s, record, "time %llu after %llu", (unsigned long long)time,
				     (unsigned long long)s->last_time);
		s->last_time = time;
	}

	seq = s->ctx[ctx].next;
	seq += (low - seq) & FST_SEQ_MASK;
	if (!discarded && record->len >= sizeof(struct rst_head)) {
		struct rst_head head;

		memcpy(&head, data, sizeof(head));
		if (head.magic != RST_MAGIC || head.cpu != s->cpu || head.ctx != ctx || head.len != record->len ||
		    (head.seq & FST_SEQ_MASK) != low)
			return WRONG(s, record, "head: magic %#x cpu %u ctx %u len %u seq %u", head.magic, head.cpu,
				     head.ctx, head.len, head.seq);
		if (head.seq < s->ctx[ctx].next)
			return WRONG(s, record, "%u comes after %u", head.seq, s->ctx[ctx].next - 1);
		seq = head.seq;
	}
	if (s->subbuf) {
		plan = fst_plan(ctx, seq, s->subbuf);
		if (plan.len != record->len || plan.timed != timed || plan.discard != discarded)
			return WRONG(s, record, "seq %u should have len %u, timed %d, discarded %d", seq, plan.len,
				     plan.timed, plan.discard);
	}
	if (!discarded) {
		want = malloc(record->len + 1);
		rst_fill(want, s->cpu, ctx, seq, record->len);
		if (memcmp(data, want, record->len)) {
			unsigned int i = 0;

			while (data[i] == want[i])
				i++;
			return WRONG(s, record, "seq %u: byte %u is %#x, not %#x", seq, i, data[i], want[i]);
		}
		free(want);
	}
	s->ctx[ctx].missing += seq - s->ctx[ctx].next;
	s->ctx[ctx].next = seq + 1;
	if (discarded)
		s->ctx[ctx].discarded++;
	else
		s->ctx[ctx].got++;
	s->records++;
	return true;
}

/* A copy of the record at a position that is complete; NULL if the writer has overtaken it. */
static const struct relay_fast_record *copy_record(struct mapped *m, struct seen *s, uint64_t position)
{
	static __thread struct relay_fast_record *copy;
	uint64_t left = m->ctl->subbuf_size - (position & (m->ctl->subbuf_size - 1)), size;
	struct relay_fast_record head;

	head = *record_at(m, position);
	if (relay_fast_kept(m->ctl) > position)
		return NULL;
	size = relay_fast_record_size(&head);
	if (size > left) {
		WRONG(s, &head, "at %llu, crosses the end of its sub-buffer", (unsigned long long)position);
		return NULL;
	}
	copy = realloc(copy, size);
	memcpy(copy, record_at(m, position), size);
	return relay_fast_kept(m->ctl) > position ? NULL : copy;
}

void drain_mapped(struct mapped *m, struct seen *s, uint64_t *position)
{
	uint64_t end = relay_fast_committed(m->ctl);

	while (*position < end && !s->bad) {
		const struct relay_fast_record *record = copy_record(m, s, *position);

		if (s->bad)
			return;
		if (!record) {
			if (!(m->ctl->flags & RELAY_FAST_OVERWRITE)) {
				fprintf(stderr, "# cpu%u: overtaken at %llu\n", s->cpu, (unsigned long long)*position);
				s->bad = true;
				return;
			}
			*position = relay_fast_kept(m->ctl);
			continue;
		}
		if (!(record->flags & RELAY_FAST_PADDING) && !see(s, record))
			return;
		*position += relay_fast_record_size(record);
	}
}

static void sleep_on(struct reader *r, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	r->sleeps++;
	/* short: a variable stops the reader */
	poll(&p, 1, 50);
}

static void read_mapped(struct reader *r)
{
	uint64_t position = 0;
	struct mapped m;
	bool stop;

	if (!map_buffer(&m, r->cpu)) {
		r->seen.bad = true;
		return;
	}
	m.reader->watermark = r->watermark;
	do {
		stop = __atomic_load_n(&r->stop, __ATOMIC_ACQUIRE);
		drain_mapped(&m, &r->seen, &position);
		set_consumed(&m, position);
		if (!stop && position >= relay_fast_committed(m.ctl))
			sleep_on(r, m.fd);
	} while (!r->seen.bad && (!stop || position < relay_fast_committed(m.ctl)));
	if (!r->seen.bad && position != produced(&m)) {
		fprintf(stderr, "# cpu%u: read up to %llu of %llu\n", r->cpu, (unsigned long long)position,
			(unsigned long long)produced(&m));
		r->seen.bad = true;
	}
	unmap_buffer(&m);
}

/* Checks all whole records in @b. */
static void parse(struct seen *s, struct bytes *b)
{
	size_t at = 0;

	while (b->len - at >= sizeof(struct relay_fast_record) && !s->bad) {
		const struct relay_fast_record *record = (const void *)(b->data + at);
		uint64_t size = relay_fast_record_size(record);

		if (size > b->len - at)
			break;
		see(s, record);
		at += size;
	}
	b->len -= at;
	memmove(b->data, b->data + at, b->len);
}

static void read_by_read(struct reader *r)
{
	uint8_t *buf = malloc(r->step);
	int fd = open_cpu(r->cpu);
	struct bytes b = {};
	ssize_t n;
	bool stop;

	if (fd < 0)
		r->seen.bad = true;
	while (!r->seen.bad) {
		stop = __atomic_load_n(&r->stop, __ATOMIC_ACQUIRE);
		n = read(fd, buf, r->step);
		if (n < 0) {
			fprintf(stderr, "# cpu%u: read: %s\n", r->cpu, strerror(errno));
			r->seen.bad = true;
		}
		if (n > 0) {
			bytes_add(&b, buf, n);
			parse(&r->seen, &b);
		}
		if (!n && stop)
			break;
		if (!n)
			sleep_on(r, fd);
	}
	if (b.len && !r->seen.bad) {
		fprintf(stderr, "# cpu%u: %zu bytes of a record at the end\n", r->cpu, b.len);
		r->seen.bad = true;
	}
	bytes_free(&b);
	free(buf);
	close(fd);
}

static void *reader_thread(void *arg)
{
	struct reader *r = arg;

	if (r->how == MAPPED)
		read_mapped(r);
	else
		read_by_read(r);
	return NULL;
}

void reader_start(struct reader *r)
{
	r->stop = 0;
	memset(&r->seen, 0, sizeof(r->seen));
	r->seen.cpu = r->cpu;
	r->seen.subbuf = r->subbuf;
	pthread_create(&r->thread, NULL, reader_thread, r);
}

bool reader_stop(struct reader *r)
{
	__atomic_store_n(&r->stop, 1, __ATOMIC_RELEASE);
	pthread_join(r->thread, NULL);
	return !r->seen.bad;
}
