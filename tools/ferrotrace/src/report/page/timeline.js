// SPDX-License-Identifier: GPL-2.0

// The timeline. Each track has rows, for slices within others, and a strip of instants. A row answers for any range of its
// slices how long they are together, which one is the longest, and how many are searched for: so a picture costs as much as
// it has pixels, however many slices there are.

const ROW = 16, STRIP = 7, GAP = 6, ROWS = 32, HEAD = 20, SHOWN = 30;
const state = { view: { ...whole }, range: null, item: -1, search: "", only: false, hidden: new Set(), order: "threads", open: new Set(), closed: new Set(), drag: "select" };
const isShown = new Uint8Array(count).fill(1), isFound = new Uint8Array(count);
let searching = false, width = 0, labels = 168, layout = [], foundCount = 0;

// The row of a slice is the first one that is free when it begins.
const rowOf = new Uint8Array(count);
for (const track of tracks) {
	const free = [];
	let instants = 0, busy = 0, until = -Infinity;
	for (let item = track.begin; item < track.end; item++) {
		if (lengths[item] === INSTANT) {
			instants++;
			continue;
		}
		const from = starts[item], to = ends(item);
		let row = free.findIndex(end => end <= from);
		if (row < 0) row = Math.min(free.length, ROWS - 1);
		free[row] = Math.max(to, free[row] ?? -Infinity);
		rowOf[item] = row;
		busy += Math.max(0, to - Math.max(from, until));
		until = Math.max(until, to);
	}
	track.depth = Math.max(1, free.length);
	track.busyTime = Math.max(busy, data.dropped_slices ? track.busy.reduce((sum, [, value]) => sum + value, 0) / track.depth : 0);
	track.hasInstants = instants > 0 || track.instants.length > 0;
	track.activity = track.busyTime + (instants + track.instants.reduce((sum, [, value]) => sum + value, 0)) * 1e-3;
}

class Row {
	constructor(ids) {
		this.ids = ids;
		const size = ids.length;
		this.sums = new Float64Array(size + 1);
		this.found = new Uint32Array(size + 1);
		this.longest = new Uint32Array(2 * size);
		for (let i = 0; i < size; i++) {
			this.sums[i + 1] = this.sums[i] + Math.max(0, lengths[ids[i]]);
			this.longest[size + i] = ids[i];
		}
		for (let i = size - 1; i > 0; i--) {
			const left = this.longest[2 * i], right = this.longest[2 * i + 1];
			this.longest[i] = lengths[left] >= lengths[right] ? left : right;
		}
		this.countFound();
	}

	countFound() {
		for (let i = 0; i < this.ids.length; i++) this.found[i + 1] = this.found[i] + isFound[this.ids[i]];
	}

	// The first index, from `low` on, of a slice that begins at `time` or later.
	at(time, low = 0) {
		// Neighbours are looked at first: the next pixel is not far.
		let step = 1, high = low;
		while (high < this.ids.length && starts[this.ids[high]] < time) {
			low = high + 1;
			high += step;
			step *= 2;
		}
		high = Math.min(high, this.ids.length);
		while (low < high) {
			const middle = (low + high) >>> 1;
			if (starts[this.ids[middle]] < time) low = middle + 1;
			else high = middle;
		}
		return low;
	}

	max(from, to) {
		let best = this.ids[from];
		const take = item => { if (lengths[item] > lengths[best]) best = item; };
		for (let low = from + this.ids.length, high = to + this.ids.length; low < high; low >>= 1, high >>= 1) {
			if (low & 1) take(this.longest[low++]);
			if (high & 1) take(this.longest[--high]);
		}
		return best;
	}

	// The index of the first slice of which something is at `time` or later.
	firstAt(time) {
		const index = this.at(time);
		return index > 0 && ends(this.ids[index - 1]) > time ? index - 1 : index;
	}

	// One of the found items in a range.
	firstFound(from, to) {
		while (from < to && !isFound[this.ids[from]]) from++;
		return this.ids[Math.min(from, to - 1)];
	}
}

// Makes the rows of what the filters leave.
function makeRows() {
	for (const track of tracks) {
		const rows = Array.from({ length: track.depth + 1 }, () => 0), put = [];
		const rowFor = item => lengths[item] === INSTANT ? track.depth : rowOf[item];
		for (let item = track.begin; item < track.end; item++) if (isShown[item]) rows[rowFor(item)]++;
		for (const size of rows) put.push(new Uint32Array(size));
		rows.fill(0);
		for (let item = track.begin; item < track.end; item++) {
			if (isShown[item]) put[rowFor(item)][rows[rowFor(item)]++] = item;
		}
		const all = put.map(ids => new Row(ids));
		track.instantRow = all.pop();
		track.rows = all;
	}
}

// Places groups and tracks: the most active ones, and the others where the user asks for them.
function placeTracks() {
	const buttons = [];
	layout = [];
	let top = 0;
	const button = (text, expanded, act) => {
		const made = document.createElement("button");
		made.type = "button";
		made.textContent = text;
		made.style.top = `${top + 1}px`;
		made.setAttribute("aria-expanded", expanded);
		made.addEventListener("click", act);
		buttons.push(made);
		top += HEAD;
	};
	const toggle = (set, key) => () => {
		if (!set.delete(key)) set.add(key);
		placeTracks();
		draw();
	};
	for (const [kind, title] of [["cpu", "CPUs"], ["thread", "Threads"]]) {
		const byActivity = tracks.filter(track => track.kind === kind).sort((a, b) => b.activity - a.activity);
		if (!byActivity.length) continue;
		const isOpen = !state.closed.has(kind);
		button(`${isOpen ? "\u25be" : "\u25b8"} ${title} (${byActivity.length})`, isOpen, toggle(state.closed, kind));
		if (!isOpen) continue;
		const busy = byActivity.slice(0, SHOWN), others = byActivity.slice(SHOWN);
		const sorted = state.order === "all" || state.order === "threads" && kind === "thread";
		const put = list => {
			if (!sorted) list.sort((a, b) => a.index - b.index);
			for (const track of list) {
				const head = labels ? 0 : 13, body = track.depth * ROW;
				const strip = track.hasInstants ? STRIP : 0;
				layout.push({ track, top, head, y: top + head, body, strip });
				top += head + body + strip + GAP;
			}
		};
		put(busy);
		if (!others.length) continue;
		const sum = list => list.reduce((sum, track) => sum + track.activity, 0);
		const isMore = state.open.has(kind);
		button(`${isMore ? "\u25be" : "\u25b8"} ${others.length} more, with ${percent(sum(others) / Math.max(sum(byActivity), 1e-9))} of the activity`,
			isMore, toggle(state.open, kind));
		if (isMore) put(others);
	}
	$("space").replaceChildren(...buttons);
	$("space").style.height = `${top}px`;
	return top;
}

const xOf = at => labels + (at - state.view.from) / (state.view.to - state.view.from) * (width - labels);
const timeAt = x => state.view.from + (x - labels) / (width - labels) * (state.view.to - state.view.from);

function canvas(element, height) {
	const scale = window.devicePixelRatio || 1;
	const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
	if (element.width !== w || element.height !== h) {
		element.width = w;
		element.height = h;
		Object.assign(element.style, { width: `${width}px`, height: `${height}px` });
	}
	const to = element.getContext("2d");
	to.setTransform(scale, 0, 0, scale, 0, 0);
	to.clearRect(0, 0, width, height);
	to.font = "11px system-ui, sans-serif";
	to.textBaseline = "middle";
	return to;
}

// A text, cut to fit.
function write(to, text, x, y, room) {
	if (room < 12) return;
	const size = to.measureText(text).width;
	if (size > room) {
		const fits = Math.floor(text.length * room / size) - 1;
		if (fits < 1) return;
		text = `${text.slice(0, fits)}\u2026`;
	}
	to.fillText(text, x, y);
}

function drawAxis() {
	const to = canvas($("axis"), 24), { from, to: end } = state.view;
	const about = (end - from) / Math.max(1, (width - labels) / 100);
	const power = 10 ** Math.floor(Math.log10(Math.max(about, 1)));
	const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= about);
	to.fillStyle = theme.text;
	for (let tick = Math.ceil(from / step) * step; tick <= end; tick += step) {
		to.fillRect(Math.round(xOf(tick)), 18, 1, 6);
		// Digits that tell neighbours apart.
		const digits = Math.max(1, Math.ceil(Math.log10(Math.abs(tick) / step + 1)) + 1);
		const [unit, one] = Object.entries(UNITS).findLast(([, one]) => Math.abs(tick) >= one) ?? ["ns", 1];
		const text = tick ? `${+(tick / one).toPrecision(Math.min(15, digits))} ${unit}` : "0";
		if (xOf(tick) + 3 + to.measureText(text).width <= width) to.fillText(text, xOf(tick) + 3, 9);
	}
	if (!labels) return;
	to.fillStyle = theme.soft;
	to.fillText(time(end - from), 4, 12);
}

// Adjacent pixels that look the same are one rectangle.
class Painter {
	constructor(to, top, height) {
		Object.assign(this, { to, top, height, from: 0, until: -1, style: "", alpha: 0 });
	}

	pixel(x, style, alpha) {
		if (style !== this.style || alpha !== this.alpha || x !== this.until) {
			this.flush();
			Object.assign(this, { from: x, style, alpha });
		}
		this.until = x + 1;
	}

	flush() {
		if (this.until <= this.from) return;
		this.to.globalAlpha = this.alpha;
		this.to.fillStyle = this.style;
		this.to.fillRect(this.from, this.top, this.until - this.from, this.height);
		this.to.globalAlpha = 1;
		this.from = this.until;
	}
}

function drawRow(to, row, top) {
	const { from, to: end } = state.view, perPixel = (end - from) / (width - labels), ids = row.ids;
	const painter = new Painter(to, top, ROW - 1);
	let drawn = 0;
	for (let index = row.firstAt(from); index < ids.length && starts[ids[index]] < end;) {
		const item = ids[index], x = xOf(starts[item]), right = Math.min(width, xOf(ends(item)));
		if (right - x >= 2) {
			const left = Math.max(labels, x), found = !searching || isFound[item];
			painter.flush();
			to.fillStyle = found ? colour(kindOf[nameOf[item]]) : theme.dim;
			// A line between neighbours, where there is room.
			to.fillRect(left, top, Math.max(1, right - left - (right - left > 3 ? 0.5 : 0)), ROW - 1);
			if (right - left > 32) {
				to.fillStyle = found ? "#000" : theme.soft;
				write(to, names[nameOf[item]], left + 3, top + ROW / 2, right - left - 5);
			}
			drawn++;
			index++;
			continue;
		}
		// All that begins in this pixel, except a long last one.
		const pixel = Math.max(labels, Math.floor(x)), after = timeAt(pixel + 1);
		let next = Math.max(index + 1, row.at(after, index));
		if (next - 1 > index && xOf(ends(ids[next - 1])) - pixel > 2) next--;
		const found = row.found[next] - row.found[index];
		const share = Math.min(1, (row.sums[next] - row.sums[index]) / perPixel);
		const shown = searching && found ? row.firstFound(index, next) : row.max(index, next);
		const alpha = searching && found ? 1 : 0.4 + Math.ceil(share * 4) * 0.15;
		painter.pixel(pixel, searching && !found ? theme.dim : colour(kindOf[nameOf[shown]]), alpha);
		drawn += next - index;
		index = next;
	}
	painter.flush();
	return drawn;
}

// Instants, by how many there are in a pixel.
function drawInstants(to, row, top) {
	const ids = row.ids, painter = new Painter(to, top, STRIP - 1);
	let drawn = 0;
	for (let index = row.at(state.view.from); index < ids.length && starts[ids[index]] <= state.view.to;) {
		const pixel = Math.min(width - 1, Math.floor(xOf(starts[ids[index]]))), next = Math.max(index + 1, row.at(timeAt(pixel + 1), index));
		const found = row.found[next] - row.found[index];
		const shown = searching && found ? row.firstFound(index, next) : ids[index];
		const alpha = Math.min(1, 0.85 + 0.05 * Math.log2(next - index));
		painter.pixel(pixel, searching && !found ? theme.dim : colour(kindOf[nameOf[shown]]), alpha);
		painter.flush();
		drawn += next - index;
		index = next;
	}
	return drawn;
}

// Of items that are not in the page, it is known how much of the time they take.
function drawDensity(to, buckets, top, height, most, style) {
	to.fillStyle = style;
	for (const [bucket, value] of buckets) {
		const left = Math.max(labels, xOf(bucket * data.width)), right = Math.min(width, xOf((bucket + 1) * data.width));
		const part = Math.max(1, Math.min(1, value / most) * height);
		if (right > left) to.fillRect(left, top + height - part, Math.max(1, right - left), part);
	}
}

let drawing = 0;
const draw = () => { drawing ||= requestAnimationFrame(drawNow); };

function drawNow() {
	drawing = 0;
	const begun = performance.now();
	const scroll = $("scroll");
	width = scroll.clientWidth;
	if (!width) return;
	const room = width < 600 ? 0 : 168;
	if (room !== labels || !layout.length) {
		labels = room;
		placeTracks();
	}
	drawAxis();
	const height = scroll.clientHeight, above = scroll.scrollTop, to = canvas($("lanes"), height);
	$("lanes").style.marginBottom = `-${height}px`;
	let drawn = 0;
	for (const { track, top, head, y, body, strip } of layout) {
		if (top + head + body + strip < above || top > above + height) continue;
		const lane = y - above;
		to.fillStyle = theme.lane;
		to.fillRect(labels, lane, width - labels, body);
		if (data.dropped_slices) drawDensity(to, track.busy, lane, body, data.width * track.depth, theme.busy);
		for (const [index, row] of track.rows.entries()) drawn += drawRow(to, row, lane + index * ROW);
		if (data.dropped_instants) {
			const most = track.instants.reduce((most, [, value]) => Math.max(most, value), 1);
			drawDensity(to, track.instants, lane + body, strip, most, theme.busy);
		} else drawn += drawInstants(to, track.instantRow, lane + body + 1);
		to.fillStyle = theme.text;
		if (labels) write(to, track.label, 6, lane + ROW / 2, labels - 12);
		else write(to, track.label, 3, lane - 6, width - 6);
	}
	if (state.range) {
		const left = Math.max(labels, xOf(state.range.from)), right = Math.min(width, xOf(state.range.to));
		to.fillStyle = theme.range;
		if (right > left) to.fillRect(left, 0, right - left, height);
		to.fillStyle = theme.mark;
		for (const at of [state.range.from, state.range.to]) if (xOf(at) >= labels && xOf(at) <= width) to.fillRect(xOf(at) - 0.5, 0, 1, height);
	}
	const box = boxOf(state.item);
	if (box) {
		to.strokeStyle = theme.text;
		to.lineWidth = 2;
		to.strokeRect(box.left - 1, box.top - above - 1, box.right - box.left + 2, box.height + 1);
	}
	$("where").textContent = `${time(state.view.from)} to ${time(state.view.to)}`;
	Object.assign(document.documentElement.dataset, { drawn, took: (performance.now() - begun).toFixed(1) });
}

// Where an item is drawn, if it is on the screen.
function boxOf(item) {
	const place = item >= 0 && layout.find(({ track }) => track.index === trackOf[item]);
	if (!place || !isShown[item]) return null;
	const left = Math.max(labels, xOf(starts[item])), right = Math.min(width, Math.max(xOf(ends(item)), left + 2));
	if (xOf(ends(item)) < labels || left > width) return null;
	const isInstant = lengths[item] === INSTANT;
	return { left, right, top: place.y + (isInstant ? place.body : rowOf[item] * ROW), height: isInstant ? STRIP : ROW - 1 };
}

// What is at a place of the tracks: the longest slice that begins there, and how many there are.
function hit(x, y) {
	const at = layout.find(({ top, head, body, strip }) => y >= top && y < top + head + body + strip + GAP / 2);
	if (!at || x < labels) return { track: at?.track, item: -1, many: 0 };
	const { track } = at, index = Math.floor((y - at.y) / ROW);
	const row = y >= at.y + at.body ? track.instantRow : track.rows[Math.max(0, index)];
	const near = row === track.instantRow ? 3 : 1;
	if (!row?.ids.length) return { track, item: -1, many: 0 };
	const from = row.firstAt(timeAt(x - near)), to = Math.max(from, row.at(timeAt(x + near), from));
	if (to === from) return { track, item: -1, many: 0 };
	// The slice below the pointer itself, if it is wide enough to be meant.
	const under = row.firstAt(timeAt(x)), one = row.ids[under];
	if (one !== undefined && lengths[one] !== INSTANT && starts[one] <= timeAt(x) && ends(one) >= timeAt(x) && xOf(ends(one)) - xOf(starts[one]) > 2) {
		return { track, item: one, many: 1 };
	}
	return { track, item: searching && row.found[to] > row.found[from] ? row.firstFound(from, to) : row.max(from, to), many: to - from };
}

function lookAt(from, to) {
	const most = whole.to - whole.from, span = Math.min(Math.max(to - from, 10), most);
	const start = Math.min(Math.max(from, whole.from), whole.to - span);
	state.view = { from: start, to: start + span };
	draw();
}
const zoom = (factor, about = (state.view.from + state.view.to) / 2) =>
	lookAt(about - (about - state.view.from) * factor, about + (state.view.to - about) * factor);
const move = part => {
	const by = (state.view.to - state.view.from) * part;
	lookAt(state.view.from + by, state.view.to + by);
};

// Brings an item into sight, and its track with it.
function reveal(item) {
	const track = tracks[trackOf[item]];
	state.closed.delete(track.kind);
	if (!layout.some(place => place.track === track)) {
		state.open.add(track.kind);
		placeTracks();
	}
	const at = layout.find(place => place.track === track), scroll = $("scroll");
	if (at && (at.top < scroll.scrollTop || at.y + at.body > scroll.scrollTop + scroll.clientHeight)) {
		scroll.scrollTop = at.top - scroll.clientHeight / 3;
	}
	const { from, to } = state.view, span = to - from, length = Math.max(0, lengths[item]), middle = starts[item] + length / 2;
	const wide = length / span;
	if (ends(item) < from || starts[item] > to || wide > 1) {
		const next = wide > 0.5 ? length * 3 : span;
		lookAt(middle - next / 2, middle + next / 2);
	} else draw();
}
