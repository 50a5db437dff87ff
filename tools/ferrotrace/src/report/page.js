// SPDX-License-Identifier: GPL-2.0
"use strict";

// The timeline: tracks one below the other, each with rows for slices that are within others, and a strip of instants.
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const LABEL = 110, ROW = 16, STRIP = 6, GAP = 6, ROWS = 12;
	const axis = document.getElementById("axis"), lanes = document.getElementById("lanes"), tip = document.getElementById("tip");

	// Slices and instants of each track; the row of a slice is the first one that is free when it begins.
	const tracks = data.tracks.map(t => ({ ...t, slices: [], marks: [], ends: [] }));
	for (const [track, from, length, name] of data.slices) {
		const t = tracks[track];
		let row = t.ends.findIndex(end => end <= from);
		if (row < 0) row = t.ends.length < ROWS ? t.ends.length : ROWS - 1;
		t.ends[row] = Math.max(from + length, t.ends[row] ?? -Infinity);
		t.slices.push({ from, to: from + length, name: data.names[name], row });
	}
	for (const [track, at, name] of data.instants) tracks[track].marks.push({ at, name: data.names[name] });
	let height = GAP;
	for (const t of tracks) {
		t.top = height;
		t.rows = Math.max(1, t.ends.length);
		height += t.rows * ROW + STRIP + GAP;
	}

	const first = data.slices.reduce((min, slice) => Math.min(min, slice[1]), 0);
	const whole = { from: first, to: Math.max(data.span, first + 1) };
	let view = { ...whole };
	let width = 0, boxes = [];

	const units = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
	const time = nanos => {
		const [one, unit] = units.find(([one]) => Math.abs(nanos) >= one) ?? units[3];
		return `${+(nanos / one).toPrecision(6)} ${unit}`;
	};
	// The same colour for the same name.
	const colors = new Map();
	const color = name => {
		if (!colors.has(name)) {
			let hash = 2166136261;
			for (const c of name) hash = Math.imul(hash ^ c.codePointAt(0), 16777619) >>> 0;
			colors.set(name, `hsl(${hash % 360} ${55 + (hash >>> 9) % 20}% ${62 + (hash >>> 16) % 10}%)`);
		}
		return colors.get(name);
	};
	const x = at => LABEL + (at - view.from) / (view.to - view.from) * (width - LABEL);
	const at = x => view.from + (x - LABEL) / (width - LABEL) * (view.to - view.from);
	const begin = (canvas, height) => {
		const scale = window.devicePixelRatio || 1;
		canvas.width = Math.round(width * scale);
		canvas.height = Math.round(height * scale);
		canvas.style.height = `${height}px`;
		const to = canvas.getContext("2d");
		to.scale(scale, scale);
		to.font = "11px system-ui, sans-serif";
		to.textBaseline = "middle";
		return to;
	};

	function drawAxis(text) {
		const to = begin(axis, 24);
		const about = (view.to - view.from) / Math.max(1, (width - LABEL) / 110);
		const power = 10 ** Math.floor(Math.log10(Math.max(about, 1)));
		const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= about);
		to.fillStyle = text;
		for (let tick = Math.ceil(view.from / step) * step; tick <= view.to; tick += step) {
			to.fillRect(Math.round(x(tick)), 18, 1, 6);
			to.fillText(tick ? time(tick) : "0", x(tick) + 3, 10);
		}
	}

	function draw() {
		width = document.getElementById("timeline").clientWidth;
		const text = getComputedStyle(document.body).color;
		drawAxis(text);
		const to = begin(lanes, height);
		boxes = [];
		let drawn = 0;
		const wide = data.width;
		for (const t of tracks) {
			const bottom = t.top + t.rows * ROW;
			to.fillStyle = "#8882";
			to.fillRect(LABEL, t.top, width - LABEL, t.rows * ROW);
			// How much of the time is taken, where slices that are too short to be kept are.
			if (data.dropped_slices) {
				to.fillStyle = "#8886";
				for (const [bucket, busy] of t.busy) {
					const part = Math.min(1, busy / wide) * ROW * t.rows;
					const left = Math.max(LABEL, x(bucket * wide)), right = Math.min(width, x((bucket + 1) * wide));
					if (right > left) to.fillRect(left, bottom - part, Math.max(1, right - left), part);
				}
			}
			let last = [];
			for (const slice of t.slices) {
				if (slice.to < view.from || slice.from > view.to) continue;
				const left = Math.max(LABEL, x(slice.from)), right = Math.min(width, x(slice.to));
				// What is within a pixel of the one before it would not be seen.
				if (right < (last[slice.row] ?? -1) + 0.5) continue;
				last[slice.row] = right;
				const box = { left, right: Math.max(right, left + 1), top: t.top + slice.row * ROW, slice };
				to.fillStyle = color(slice.name);
				to.fillRect(left, box.top, box.right - left, ROW - 1);
				drawn++;
				boxes.push(box);
				if (right - left > 30) {
					to.save();
					to.beginPath();
					to.rect(left, box.top, right - left, ROW);
					to.clip();
					to.fillStyle = "#000";
					to.fillText(slice.name, left + 3, box.top + ROW / 2);
					to.restore();
				}
			}
			if (data.dropped_instants) {
				const most = Math.max(1, ...t.instants.map(([, count]) => count));
				to.fillStyle = "#c60";
				for (const [bucket, count] of t.instants) {
					const part = Math.max(1, count / most * STRIP);
					const left = Math.max(LABEL, x(bucket * wide)), right = Math.min(width, x((bucket + 1) * wide));
					if (right > left) to.fillRect(left, bottom + STRIP - part, Math.max(1, right - left), part);
				}
			} else {
				to.fillStyle = "#c60";
				for (const mark of t.marks) {
					if (mark.at < view.from || mark.at > view.to) continue;
					const left = x(mark.at);
					to.fillRect(left - 0.5, bottom, 1.5, STRIP);
					drawn++;
					boxes.push({ left: left - 2, right: left + 2, top: bottom - 2, slice: null, mark });
				}
			}
			to.fillStyle = text;
			to.fillText(t.name, 4, t.top + ROW / 2);
		}
		document.documentElement.dataset.drawn = drawn;
	}

	function show(from, to) {
		const most = whole.to - whole.from, span = Math.min(Math.max(to - from, 10), most);
		const start = Math.min(Math.max(from, whole.from), whole.to - span);
		view = { from: start, to: start + span };
		requestAnimationFrame(draw);
	}

	const mouse = event => [event.clientX - lanes.getBoundingClientRect().left, event.clientY - lanes.getBoundingClientRect().top];
	lanes.addEventListener("wheel", event => {
		// Without a key, the wheel is for the page.
		if (!event.ctrlKey && !event.metaKey && !event.altKey) return;
		event.preventDefault();
		const about = at(Math.max(LABEL, mouse(event)[0])), factor = Math.exp(event.deltaY / 300);
		show(about - (about - view.from) * factor, about + (view.to - about) * factor);
	}, { passive: false });
	let held = null;
	lanes.addEventListener("mousedown", event => { held = { x: event.clientX, ...view }; });
	window.addEventListener("mouseup", () => { held = null; });
	lanes.addEventListener("mousemove", event => {
		if (held) {
			const by = (event.clientX - held.x) / (width - LABEL) * (held.to - held.from);
			show(held.from - by, held.to - by);
			return;
		}
		const [mx, my] = mouse(event);
		const box = boxes.findLast(b => mx >= b.left && mx <= b.right && my >= b.top && my <= b.top + ROW);
		tip.style.display = box ? "block" : "none";
		if (!box) return;
		const { slice, mark } = box;
		tip.textContent = slice ? `${slice.name}\n${time(slice.to - slice.from)} from ${time(slice.from)}` :
			`${mark.name}\nat ${time(mark.at)}`;
		tip.style.left = `${Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 8)}px`;
		tip.style.top = `${event.clientY + 14}px`;
	});
	lanes.addEventListener("mouseleave", () => { tip.style.display = "none"; });
	lanes.addEventListener("dblclick", () => show(whole.from, whole.to));
	window.addEventListener("keydown", event => {
		const span = view.to - view.from, middle = (view.from + view.to) / 2;
		if (event.key === "+") show(middle - span / 4, middle + span / 4);
		else if (event.key === "-") show(middle - span, middle + span);
		else if (event.key === "ArrowLeft") show(view.from - span / 5, view.to - span / 5);
		else if (event.key === "ArrowRight") show(view.from + span / 5, view.to + span / 5);
		else if (event.key === "0") show(whole.from, whole.to);
	});
	window.addEventListener("resize", draw);
	if (tracks.length) draw();

	// A click on the title of a column sorts by it.
	for (const th of document.querySelectorAll("th")) {
		th.addEventListener("click", () => {
			const body = th.closest("table").tBodies[0], index = th.cellIndex;
			const value = row => row.cells[index].dataset.value;
			const rows = [...body.rows].sort((a, b) => value(a) === undefined ?
				a.cells[index].textContent.localeCompare(b.cells[index].textContent) : value(b) - value(a));
			body.append(...rows);
		});
	}
})();
