// SPDX-License-Identifier: GPL-2.0

// Views of the selection: its figures, a record's fields, the tables, the histogram and the flame graph.

function element(tag, text, ...attributes) {
	const made = document.createElement(tag);
	if (text !== undefined) made.textContent = text;
	for (const [name, value] of attributes) made.setAttribute(name, value);
	return made;
}
function list(pairs) {
	const dl = document.createElement("dl");
	for (const [name, value] of pairs) dl.append(element("dt", name), element("dd", value));
	return dl;
}

// The items that are selected: those that the filters leave, in the time that is marked.
function selected() {
	const ids = [], { range } = state;
	for (let item = 0; item < count; item++) {
		if (!isShown[item] || searching && !isFound[item]) continue;
		if (range && (starts[item] > range.to || ends(item) < range.from)) continue;
		ids.push(item);
	}
	return ids;
}
const isSelection = () => Boolean(state.range || searching || state.hidden.size);

// The part of a slice that is selected.
function partOf(item) {
	const { range } = state;
	return range ? Math.max(0, Math.min(ends(item), range.to) - Math.max(starts[item], range.from)) : Math.max(0, lengths[item]);
}

function figures(values) {
	const sorted = Float64Array.from(values).sort(), size = sorted.length;
	const at = part => sorted[Math.min(size - 1, Math.floor(part * size))];
	const sum = sorted.reduce((sum, value) => sum + value, 0);
	return { sum, min: sorted[0], mean: sum / size, median: at(0.5), p90: at(0.9), p99: at(0.99), max: sorted[size - 1] };
}

function groupBy(ids, key) {
	const groups = new Map();
	for (const item of ids) {
		const name = key(item), group = groups.get(name);
		if (group) group.push(item);
		else groups.set(name, [item]);
	}
	return groups;
}
const statistics = (ids, key) => [...groupBy(ids, key)].map(([name, items]) => {
	let total = 0, longest = 0;
	for (const item of items) {
		total += partOf(item);
		longest = Math.max(longest, lengths[item]);
	}
	return { name, count: items.length, total, longest, items };
}).sort((a, b) => b.total - a.total || b.count - a.count);

// A table whose rows do something when they are clicked.
function makeTable(title, columns, rows) {
	const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
	for (const column of columns) head.append(element("th", column));
	for (const { cells, values, act } of rows) {
		const row = body.insertRow();
		for (const [index, cell] of cells.entries()) {
			const made = row.insertCell();
			made.textContent = cell;
			if (values?.[index] !== undefined) made.dataset.value = values[index];
		}
		if (act) onRow(row, act);
	}
	sortable(table);
	if (columns.at(-1) === "fields") table.className = "texts";
	const wide = element("div", undefined, ["class", "wide"]);
	wide.append(table);
	return title ? [element("h2", title), wide] : [wide];
}
function onRow(row, act) {
	row.tabIndex = 0;
	row.addEventListener("click", act);
	row.addEventListener("keydown", event => { if (event.key === "Enter") act(); });
}
function sortable(table) {
	for (const th of table.tHead.querySelectorAll("th")) {
		th.tabIndex = 0;
		const sort = () => {
			const body = table.tBodies[0], value = row => row.cells[th.cellIndex].dataset.value, text = row => row.cells[th.cellIndex].textContent;
			body.append(...[...body.rows].sort((a, b) => value(a) === undefined ? text(a).localeCompare(text(b)) : value(b) - value(a)));
		};
		th.addEventListener("click", sort);
		th.addEventListener("keydown", event => { if (event.key === "Enter") sort(); });
	}
}

const statisticsTable = (title, first, groups, most, act) => makeTable(title, [first, "count", "total", "mean", "longest"],
	groups.slice(0, most).map(({ name, count, total, longest, items }) => {
		const length = Math.max(0, longest), mean = total / count;
		return { cells: [name, plain(count), time(total), time(mean), time(length)], values: [undefined, count, total, mean, length], act: () => act(name, items) };
	}));

function longestOf(items) {
	let best = items[0];
	for (const item of items) if (lengths[item] > lengths[best]) best = item;
	return best;
}
// Marks all of a name, and zooms to the longest one.
function mark(name, items) {
	setSearch(`name=${quoted(name)}`);
	goTo(longestOf(items));
}
function goTo(item) {
	if (item === undefined) return;
	openTab("timeline");
	select(item);
	const length = Math.max(lengths[item], 1000);
	lookAt(starts[item] - 2 * length, ends(item) + 2 * length);
	reveal(item);
}
function goToTrack(track) {
	state.closed.delete(track.kind);
	if (state.range) lookAt(state.range.from, state.range.to);
	let first = track.begin;
	while (first < track.end - 1 && !(isShown[first] && (!searching || isFound[first]) && (!state.range || ends(first) >= state.range.from))) first++;
	openTab("timeline");
	if (track.end > track.begin) {
		select(first);
		reveal(first);
	}
}

function showSelection(ids) {
	const slices = ids.filter(item => lengths[item] !== INSTANT), parts = [];
	parts.push(element("h2", !isSelection() ? "All" : state.range ? `Selection of ${time(state.range.to - state.range.from)}` : "Selection"));
	const instants = ids.length - slices.length;
	const counts = [["slices", plain(slices.length)], ["instants", plain(instants)]];
	if (slices.length) {
		const { min, mean, median, p90, p99, max } = figures(slices.map(item => lengths[item]));
		const sum = slices.reduce((sum, item) => sum + partOf(item), 0);
		counts.push([state.range ? "sum, in it" : "sum", time(sum)], ["shortest", time(min)], ["mean", time(mean)], ["median", time(median)], ["90 %", time(p90)], ["99 %", time(p99)], ["longest", time(max)]);
	}
	const dl = document.createElement("dl");
	dl.className = "figures";
	for (const [name, value] of counts) {
		const one = document.createElement("div");
		one.append(element("dt", name), element("dd", value));
		dl.append(one);
	}
	parts.push(dl);
	if (ids.length) parts.push(...statisticsTable("", "name", statistics(ids, item => names[nameOf[item]]), 6, mark));
	else parts.push(element("p", count ? "Nothing of the recording is in it." : "The recording has no record.", ["class", "note"]));
	$("selection").replaceChildren(...parts);
}

function describe(item) {
	const parts = [["track", tracks[trackOf[item]].label], ["at", time(starts[item])]];
	if (lengths[item] !== INSTANT) parts.push(["length", time(lengths[item])]);
	return parts;
}
function showRecord() {
	const { item } = state, parts = [];
	if (item < 0) {
		parts.push(element("p", "Drag over the tracks to select a time, click a slice to see its fields.", ["class", "note"]));
	} else {
		parts.push(element("h2", names[nameOf[item]]));
		const texts = fieldTexts(item), stack = texts.find(([, value]) => Array.isArray(value));
		parts.push(list([...describe(item), ...texts.filter(([, value]) => !Array.isArray(value))]));
		if (stack?.[1].length) parts.push(element("h2", "stack"), element("div", stack[1].toReversed().join("\n"), ["class", "stack"]));
	}
	$("record").replaceChildren(...parts);
}

function showTip(event, { item, many }) {
	const tip = $("tip");
	tip.style.display = item < 0 ? "none" : "block";
	if (item < 0) return;
	const fields = fieldTexts(item).map(([name, value]) => [name, Array.isArray(value) ? value.at(-1) ?? "" : value]);
	const parts = [element("b", names[nameOf[item]]), list([...describe(item), ...fields.slice(0, 14)])];
	if (many > 1) parts.push(element("p", `and ${plain(many - 1)} more here`, ["class", "note"]));
	tip.replaceChildren(...parts);
	putTip(event);
}
function putTip({ clientX, clientY }) {
	const tip = $("tip");
	tip.style.left = `${Math.max(4, Math.min(clientX + 12, window.innerWidth - tip.offsetWidth - 8))}px`;
	const below = clientY + 16;
	tip.style.top = `${Math.max(4, below + tip.offsetHeight > window.innerHeight ? clientY - tip.offsetHeight - 10 : below)}px`;
}

const RECORDS = 200;
function showTables(ids) {
	const use = isSelection() || data.dropped_slices + data.dropped_instants === 0 && ids.length <= RECORDS;
	$("whole-tables").hidden = isSelection();
	const parts = [];
	if (isSelection()) {
		parts.push(...statisticsTable("By name", "name", statistics(ids, item => names[nameOf[item]]), 100, mark));
		parts.push(...statisticsTable("By track", "track", statistics(ids, item => trackOf[item]).map(group => ({ ...group, track: group.name, name: tracks[group.name].label })), 100,
			(_, items) => goToTrack(tracks[trackOf[items[0]]])));
	}
	if (use && ids.length) {
		const some = [...ids].sort((a, b) => lengths[b] - lengths[a] || starts[a] - starts[b]).slice(0, RECORDS);
		const title = ids.length > RECORDS ? `Slices and instants (the ${RECORDS} longest)` : "Slices and instants";
		parts.push(...makeTable(title, ["name", "track", "at", "length", "fields"], some.map(item => ({
			cells: [names[nameOf[item]], tracks[trackOf[item]].label, time(starts[item]), lengths[item] === INSTANT ? "" : time(lengths[item]),
				fieldTexts(item).filter(([name]) => name !== "duration").map(([name, value]) => `${name}=${Array.isArray(value) ? value.at(-1) ?? "" : value}`).join(" ")],
			values: [undefined, undefined, starts[item], lengths[item], undefined],
			act: () => goTo(item),
		}))));
	}
	$("selected-tables").replaceChildren(...parts);
}

// Rows of the tables that the page was written with.
function linkTables() {
	for (const table of $("whole-tables").querySelectorAll("table")) {
		sortable(table);
		for (const row of table.tBodies[0].rows) {
			const { name, track } = row.dataset;
			const known = track !== undefined ? tracks.find(one => one.name === track) : names.indexOf(name);
			if (known === undefined || known === -1) continue;
			onRow(row, () => {
				if (track !== undefined) goToTrack(known);
				else {
					const items = [];
					for (let item = 0; item < count; item++) if (nameOf[item] === known) items.push(item);
					if (items.length) mark(name, items);
				}
			});
		}
	}
}

// Histograms: of numbers, by ranges that grow with them; of texts and of few different numbers, by value.
const BARS = 40, EXACT = 24;
function bars(ids, field) {
	const values = ids.map(item => fieldOf(item, field)).filter(value => value !== undefined);
	const byValue = new Map();
	for (const value of values) {
		byValue.set(value, (byValue.get(value) ?? 0) + 1);
		if (byValue.size > EXACT && typeof value === "number") break;
	}
	const isText = typeof values[0] === "string";
	if (isText || byValue.size <= EXACT) {
		const sorted = [...byValue].sort((a, b) => isText ? b[1] - a[1] : a[0] - b[0]);
		return { total: values.length, left: Math.max(0, sorted.length - BARS), bars: sorted.slice(0, BARS).map(([value, size]) =>
			({ label: isText ? value || "(empty)" : show(field, value), size, search: `${field}=${isText ? quoted(value) : value}` })) };
	}
	let fewer = Infinity, parts = 4;
	const edge = (bucket, parts) => {
		const [sign, size] = bucket < 0 ? [-1, -bucket] : [1, bucket];
		return bucket === 0 ? 0 : sign * 2 ** Math.floor((size - 1) / parts) * (1 + (size - 1) % parts / parts);
	};
	const bucketOf = (value, parts) => {
		const size = Math.abs(value);
		if (size < 1) return 0;
		const power = Math.min(63, Math.floor(Math.log2(size))), bucket = 1 + power * parts + Math.min(parts - 1, Math.floor((size / 2 ** power - 1) * parts));
		return value < 0 ? -bucket : bucket;
	};
	let buckets;
	for (; parts >= 1; parts /= 2) {
		buckets = new Map();
		for (const value of values) {
			const bucket = bucketOf(value, parts);
			buckets.set(bucket, (buckets.get(bucket) ?? 0) + 1);
		}
		const keys = [...buckets.keys()];
		fewer = Math.max(...keys) - Math.min(...keys) + 1;
		if (fewer <= BARS || parts === 1) break;
	}
	const keys = [...buckets.keys()].sort((a, b) => a - b), made = [];
	for (let bucket = keys[0]; bucket <= keys.at(-1); bucket++) {
		const size = buckets.get(bucket) ?? 0;
		if (!size && fewer > BARS) continue;
		const low = bucket < 0 ? edge(bucket - 1, parts) : edge(bucket, parts), high = bucket < 0 ? edge(bucket, parts) : edge(bucket + 1, parts);
		// Whole numbers only are below 0 or between the edges.
		const [from, to] = bucket < 0 ? [Math.floor(low) + 1, Math.floor(high) + 1] : [Math.ceil(low), Math.ceil(high)];
		made.push({ label: `${show(field, low)} \u2013 ${show(field, high)}`, size, search: `${field}>=${from} ${field}<${to}` });
	}
	return { total: values.length, left: 0, bars: made };
}

function choices(select, options) {
	const before = select.value;
	select.replaceChildren(...options.map(([value, text]) => element("option", text, ["value", value])));
	if (options.some(([value]) => value === before)) select.value = before;
}

function showHistogram(ids) {
	const field = $("histogram-of").value, by = $("histogram-by").value;
	const some = ids.filter(item => fieldOf(item, field) !== undefined);
	const groups = by ? [...groupBy(some, item => fieldOf(item, by))].sort((a, b) => b[1].length - a[1].length).slice(0, 8) : [["", some]];
	const parts = [];
	for (const [name, items] of groups) {
		const { total, left, bars: list } = bars(items, field), most = list.reduce((most, { size }) => Math.max(most, size), 1);
		const title = `${by ? `${name}: ` : ""}${field}, ${plain(total)} values`;
		parts.push(element("h2", title));
		if (total && typeof fieldOf(items[0], field) === "number") {
			const { sum, min, mean, median, p99, max } = figures(items.map(item => fieldOf(item, field)));
			const all = [["sum", sum], ["min", min], ["mean", mean], ["median", median], ["99 %", p99], ["max", max]];
			parts.push(element("p", all.map(([name, value]) => `${name} ${show(field, value)}`).join(", "), ["class", "note"]));
		}
		for (const { label, size, search } of list) {
			const bar = element("button", undefined, ["class", "bar"], ["type", "button"], ["title", `search for ${search}`]), fill = document.createElement("i");
			fill.style.width = `${100 * size / most}%`;
			if (!size) fill.style.visibility = "hidden";
			if (by === "name") fill.style.background = colour(name.replace(/-\d+$/, ""));
			const middle = document.createElement("span");
			middle.append(fill);
			bar.append(element("span", label), middle, element("span", plain(size)));
			bar.addEventListener("click", () => setSearch(by ? `${by}=${quoted(name)} ${search}` : search));
			parts.push(bar);
		}
		if (left) parts.push(element("p", `and ${plain(left)} other values`, ["class", "note"]));
	}
	$("bars").replaceChildren(...parts);
}

// The flame graph.
const FLAME_ROW = 17;
const flame = { root: null, zoomed: null, boxes: [] };
const frame = (name, parent = null) => ({ name, value: 0, calls: new Map(), parent, depth: parent ? parent.depth + 1 : 0 });
function callee(caller, name) {
	let call = caller.calls.get(name);
	if (!call) {
		call = frame(name, caller);
		caller.calls.set(name, call);
	}
	return call;
}
function addStack(root, stack, value) {
	let at = root;
	at.value += value;
	for (const name of stack) {
		if (at.depth > 500) return;
		at = callee(at, name);
		at.value += value;
	}
}

function flameSources() {
	const has = { hits: false, time: false, calls: false, running: false };
	for (const { fields } of formats) if (fields.some(([, kind]) => kind === "s")) {
		has.hits = true;
		has.time ||= fields.some(([name]) => name === "duration");
	}
	has.calls = tracks.some(track => track.kind === "thread");
	has.running = tracks.some(track => track.kind === "cpu");
	return [["hits", "stacks, by hits"], ["time", "stacks, by duration"], ["calls", "calls within calls, by time"], ["running", "tasks on CPUs, by time"]].filter(([name]) => has[name]);
}

function buildFlame(ids) {
	const root = frame("all"), source = $("flame-of").value;
	// Time of calls within a call is not its own, whether they are selected or not.
	const paths = [];
	for (const item of ids) {
		const track = tracks[trackOf[item]];
		if (source === "hits" || source === "time") {
			const stack = stackOf(item), value = source === "hits" ? 1 : fieldOf(item, "duration") ?? 0;
			if (stack) addStack(root, stackNames(stack), value);
		} else if (lengths[item] !== INSTANT && track.kind === (source === "calls" ? "thread" : "cpu")) {
			if (source === "running") {
				addStack(root, [track.name, names[nameOf[item]]], partOf(item));
				continue;
			}
			while (paths.length && (paths.at(-1).track !== track || ends(item) > paths.at(-1).to)) paths.pop();
			const over = paths.at(-1), base = over?.frame ?? callee(root, track.label);
			const call = base.depth > 500 ? base : callee(base, names[nameOf[item]]), part = partOf(item);
			call.value += part;
			if (!over) {
				base.value += part;
				root.value += part;
			}
			paths.push({ track, to: ends(item), frame: call });
		}
	}
	Object.assign(flame, { root, zoomed: root, unit: source === "hits" ? value => `${plain(value)} hits` : time });
}

const flameHue = name => {
	const index = hash(name) % 12;
	return [8, 14, 20, 26, 31, 36, 41, 46, 50, 3, 354, 54][index];
};
function drawFlame() {
	const { root, zoomed } = flame, area = $("flame-scroll");
	if (!root || !area.clientWidth) return;
	const boxes = [];
	let deepest = 0;
	const all = area.clientWidth;
	// Callers of the frame that is zoomed to are as wide as it is.
	for (let at = zoomed.parent; at; at = at.parent) boxes.push({ at, left: 0, wide: all, above: true });
	const todo = [{ at: zoomed, left: 0, wide: all }];
	while (todo.length) {
		const box = todo.pop();
		boxes.push(box);
		deepest = Math.max(deepest, box.at.depth);
		let { left } = box;
		for (const call of [...box.at.calls.values()].sort((a, b) => a.name < b.name ? -1 : 1)) {
			const wide = call.value / Math.max(box.at.value, 1e-9) * box.wide;
			if (wide >= 0.3) todo.push({ at: call, left, wide });
			left += wide;
		}
	}
	const before = width, height = Math.max(60, (deepest + 1) * FLAME_ROW + 2);
	width = all;
	const to = canvas($("flame-graph"), height);
	width = before;
	const wanted = $("search").value.trim().toLowerCase();
	let found = 0;
	const lightness = theme.lightness - 6;
	for (const box of boxes) {
		const { at, left, wide, above } = box;
		box.top = height - (at.depth + 1) * FLAME_ROW - 1;
		const is = wanted && at.name.toLowerCase().includes(wanted);
		to.globalAlpha = above ? 0.55 : 1;
		to.fillStyle = is ? theme.mark : at.depth ? `hsl(${flameHue(at.name)} 75% ${lightness}%)` : theme.busy;
		to.fillRect(left, box.top, Math.max(0.5, wide - 0.6), FLAME_ROW - 1);
		to.globalAlpha = 1;
		if (is) found++;
		to.fillStyle = is ? theme.page : "#000";
		if (wide > 22) write(to, at.name, left + 3, box.top + FLAME_ROW / 2, wide - 6);
	}
	flame.boxes = boxes;
	const share = root.value ? ` (${percent(zoomed.value / root.value)})` : "";
	$("flame-where").textContent = root.value ? `${zoomed.name}: ${flame.unit(zoomed.value)}${share}${wanted ? `, ${plain(found)} frames found` : ""}` : "nothing of it is selected";
	document.documentElement.dataset.frames = boxes.length;
}
const flameAt = event => {
	const { left, top } = $("flame-graph").getBoundingClientRect(), x = event.clientX - left, y = event.clientY - top;
	return flame.boxes.find(box => x >= box.left && x < box.left + box.wide && y >= box.top && y < box.top + FLAME_ROW);
};
function showFlameTip(event) {
	const box = flameAt(event), tip = $("tip");
	tip.style.display = box ? "block" : "none";
	if (!box) return;
	const { at } = box, parts = [["value", flame.unit(at.value)], ["of all", percent(at.value / flame.root.value)]];
	if (at.parent) parts.push(["of the caller", percent(at.value / at.parent.value)]);
	let own = at.value;
	for (const call of at.calls.values()) own -= call.value;
	parts.push(["itself", flame.unit(Math.max(0, own))]);
	tip.replaceChildren(element("b", at.name), list(parts));
	putTip(event);
}
