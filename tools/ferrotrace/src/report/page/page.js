// SPDX-License-Identifier: GPL-2.0

// What the user does: the search, the filters, the tabs, the pointer and the keys.

const TABS = ["timeline", "flame", "histogram", "tables"];
let openedTab = "timeline", refreshing = 0, fresh = new Set();

function openTab(name) {
	openedTab = name;
	for (const tab of TABS) {
		$(tab).hidden = tab !== name;
		$(`tab-${tab}`).setAttribute("aria-selected", tab === name);
		$(`tab-${tab}`).tabIndex = tab === name ? 0 : -1;
	}
	$("tip").style.display = "none";
	if (name === "timeline") draw();
	else refresh();
}

// Views are made when they are looked at, and again only when the selection has changed.
let current = [];
function refresh() {
	refreshing ||= setTimeout(() => {
		refreshing = 0;
		if (!fresh.has("items")) {
			current = selected();
			showSelection(current);
			document.documentElement.dataset.selected = current.length;
			fresh.add("items");
		}
		if (fresh.has(openedTab)) return;
		fresh.add(openedTab);
		if (openedTab === "tables") showTables(current);
		else if (openedTab === "histogram") showHistogram(current);
		else if (openedTab === "flame") {
			buildFlame(current);
			drawFlame();
			$("flame-scroll").scrollTop = $("flame-scroll").scrollHeight;
		}
	}, 0);
}
function changed() {
	fresh = new Set();
	refresh();
	draw();
}

// Applies the search and the filters to all items.
function applyFilters() {
	const is = parseSearch(state.search), hidden = names.map((_, index) => state.hidden.has(kindOf[index]));
	searching = Boolean(is);
	foundCount = 0;
	for (let item = 0; item < count; item++) {
		const found = searching && is(item);
		isFound[item] = found ? 1 : 0;
		isShown[item] = hidden[nameOf[item]] || state.only && searching && !found ? 0 : 1;
		foundCount += found && isShown[item] ? 1 : 0;
	}
	$("found").textContent = searching ? `${plain(foundCount)} found` : "";
	document.documentElement.dataset.found = foundCount;
	makeRows();
	changed();
}
function setSearch(text) {
	state.search = $("search").value = text;
	applyFilters();
}

// The next or previous one in time that was found, after the one that is selected.
function step(direction) {
	if (!foundCount) return;
	const key = item => [starts[item], item];
	const after = (a, b) => a[0] > b[0] || a[0] === b[0] && a[1] > b[1];
	const now = state.item >= 0 ? key(state.item) : [direction > 0 ? -Infinity : Infinity, -1];
	let best = -1, edge = -1;
	for (let item = 0; item < count; item++) {
		if (!isFound[item] || !isShown[item]) continue;
		const at = key(item), nearer = (than, one) => than < 0 || (direction > 0 ? after(key(than), one) : after(one, key(than)));
		if (nearer(edge, at)) edge = item;
		if ((direction > 0 ? after(at, now) : after(now, at)) && nearer(best, at)) best = item;
	}
	// After the last one the first one is next.
	select(best < 0 ? edge : best);
	openTab("timeline");
	reveal(state.item);
}
// The neighbour of the selected one on its track.
function neighbour(direction) {
	if (state.item < 0) return;
	const { begin, end } = tracks[trackOf[state.item]];
	for (let item = state.item + direction; item >= begin && item < end; item += direction) {
		if (!isShown[item]) continue;
		select(item);
		reveal(item);
		return;
	}
}
function select(item) {
	state.item = item;
	document.documentElement.dataset.item = item;
	showRecord();
	draw();
}
function selectRange(range) {
	state.range = range;
	changed();
}
function setMode(drag) {
	state.drag = drag;
	$("mode").setAttribute("aria-pressed", drag === "move");
	$("scroll").style.touchAction = drag === "move" ? "pan-y" : "none";
}

function makeKinds() {
	const kinds = new Map();
	for (let item = 0; item < count; item++) {
		const kind = kindOf[nameOf[item]], one = kinds.get(kind) ?? { kind, count: 0, length: 0 };
		one.count++;
		one.length += Math.max(0, lengths[item]);
		kinds.set(kind, one);
	}
	const sorted = [...kinds.values()].sort((a, b) => b.length - a.length || b.count - a.count);
	const MOST = 200;
	$("kinds").replaceChildren(...sorted.slice(0, MOST).map(({ kind, count }) => {
		const li = document.createElement("li"), label = document.createElement("label"), box = element("input", undefined, ["type", "checkbox"]);
		box.checked = true;
		box.dataset.kind = kind;
		box.addEventListener("change", () => {
			if (box.checked) state.hidden.delete(kind);
			else state.hidden.add(kind);
			applyFilters();
		});
		const swatch = element("span", undefined, ["class", "swatch"]);
		swatch.style.background = colour(kind);
		label.append(box, swatch, element("span", kind || "(no name)", ["class", "name"], ["title", kind]), element("span", plain(count), ["class", "count"]));
		li.append(label);
		return li;
	}));
	if (sorted.length > MOST) $("kinds").append(element("li", `and ${sorted.length - MOST} more; search for them`, ["class", "note"]));
	const all = shown => () => {
		state.hidden = new Set(shown ? [] : kinds.keys());
		for (const box of $("kinds").querySelectorAll("input")) box.checked = shown;
		applyFilters();
	};
	$("all-kinds").addEventListener("click", all(true));
	$("no-kinds").addEventListener("click", all(false));
}

// The pointer on the tracks: a click selects one, dragging a time; with Shift, or in the other mode, dragging moves.
const pointers = new Map();
let held = null;
const mouse = event => {
	const { left, top } = $("scroll").getBoundingClientRect();
	return [event.clientX - left - 1, event.clientY - top - 1 + $("scroll").scrollTop];
};
function pointerDown(event) {
	if (event.button > 1 || event.target.closest("button")) return;
	pointers.set(event.pointerId, event);
	if (pointers.size === 2) {
		const [a, b] = [...pointers.values()].map(one => mouse(one)[0]);
		held = { pinch: Math.max(10, Math.abs(a - b)), about: timeAt((a + b) / 2), view: state.view };
		return;
	}
	$("scroll").setPointerCapture(event.pointerId);
	const moves = event.button === 1 || event.shiftKey !== (state.drag === "move");
	held = { x: mouse(event)[0], y: mouse(event)[1], moves, view: state.view, at: timeAt(mouse(event)[0]), far: false, range: state.range };
}
function pointerMove(event) {
	const [x, y] = mouse(event);
	if (!held) {
		if (event.pointerType !== "touch") showTip(event, hit(x, y));
		return;
	}
	if (pointers.has(event.pointerId)) pointers.set(event.pointerId, event);
	const { view } = held;
	if (held.pinch) {
		const [a, b] = [...pointers.values()].map(one => mouse(one)[0]);
		if (b === undefined) return;
		const factor = held.pinch / Math.max(10, Math.abs(a - b));
		lookAt(held.about - (held.about - view.from) * factor, held.about + (view.to - held.about) * factor);
		return;
	}
	held.far ||= Math.abs(x - held.x) > 4;
	if (!held.far) return;
	$("tip").style.display = "none";
	if (held.moves) {
		const by = (held.x - x) / (width - labels) * (view.to - view.from);
		lookAt(view.from + by, view.to + by);
	} else {
		const at = timeAt(Math.max(labels, Math.min(width, x)));
		state.range = { from: Math.min(at, held.at), to: Math.max(at, held.at) };
		draw();
	}
}
function pointerUp(event) {
	pointers.delete(event.pointerId);
	if (!held || pointers.size) return;
	const { far, moves, pinch } = held;
	held = null;
	if (pinch || event.type === "pointercancel") return;
	if (!far) {
		const one = hit(...mouse(event));
		select(one.item);
		if (event.pointerType === "touch") showTip(event, one);
	} else if (!moves) selectRange(state.range);
}

function keys(event) {
	if ($("help").open) {
		if (event.key === "Escape") $("help").close();
		return;
	}
	if (event.target.matches("input[type=search], select")) {
		if (event.key === "Escape") event.target.blur();
		if (event.key === "Enter" && event.target === $("search")) step(event.shiftKey ? -1 : 1);
		return;
	}
	if (event.ctrlKey || event.metaKey || event.altKey) return;
	const isTab = event.target.matches("[role=tab]"), side = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
	if (isTab && side) {
		openTab(TABS[(TABS.indexOf(openedTab) + side + TABS.length) % TABS.length]);
		$(`tab-${openedTab}`).focus();
		return;
	}
	const act = {
		"/": () => { $("side").open = true; $("search").focus(); },
		"?": () => $("help").showModal(),
		"+": () => zoom(0.5), "=": () => zoom(0.5), w: () => zoom(0.5), "-": () => zoom(2), s: () => zoom(2),
		ArrowLeft: () => move(-0.2), a: () => move(-0.2), ArrowRight: () => move(0.2), d: () => move(0.2),
		0: showAll, z: zoomRange, m: () => setMode(state.drag === "move" ? "select" : "move"),
		n: () => step(1), N: () => step(-1), ",": () => neighbour(-1), ".": () => neighbour(1),
		1: () => openTab("timeline"), 2: () => openTab("flame"), 3: () => openTab("histogram"), 4: () => openTab("tables"),
		Escape: () => {
			if (flame.root && openedTab === "flame" && flame.zoomed !== flame.root) showFlame(flame.root);
			else if (state.item >= 0 || state.range) {
				select(-1);
				selectRange(null);
			} else if (searching) setSearch("");
		},
	}[event.key];
	if (!act) return;
	event.preventDefault();
	act();
}
function showAll() {
	if (openedTab === "flame") showFlame(flame.root);
	else lookAt(whole.from, whole.to);
}
function zoomRange() {
	if (state.range) lookAt(state.range.from, state.range.to);
	else if (state.item >= 0) lookAt(starts[state.item] - lengths[state.item], ends(state.item) + Math.max(1, lengths[state.item]));
}
function showFlame(at) {
	flame.zoomed = at ?? flame.root;
	drawFlame();
}

function wire() {
	const on = (id, type, act, options) => $(id).addEventListener(type, act, options);
	let typing = 0;
	on("search", "input", () => {
		clearTimeout(typing);
		typing = setTimeout(() => setSearch($("search").value), count > 1e5 ? 250 : 60);
	});
	on("only", "change", () => { state.only = $("only").checked; applyFilters(); });
	on("order", "change", () => { state.order = $("order").value; placeTracks(); draw(); });
	on("next", "click", () => step(1));
	on("previous", "click", () => step(-1));
	for (const tab of TABS) on(`tab-${tab}`, "click", () => openTab(tab));
	on("zoom-in", "click", () => zoom(0.5));
	on("zoom-out", "click", () => zoom(2));
	on("zoom-all", "click", showAll);
	on("zoom-range", "click", zoomRange);
	on("mode", "click", () => setMode(state.drag === "move" ? "select" : "move"));
	on("help-open", "click", () => $("help").showModal());
	on("scroll", "scroll", draw);
	on("scroll", "pointerdown", pointerDown);
	on("scroll", "pointermove", pointerMove);
	on("scroll", "pointerup", pointerUp);
	on("scroll", "pointercancel", pointerUp);
	on("scroll", "pointerleave", () => { if (!held) $("tip").style.display = "none"; });
	on("scroll", "dblclick", showAll);
	on("scroll", "wheel", event => {
		// Without a key, the wheel is for the page; sideways it moves.
		if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) move(event.deltaX / 1000);
		else if (event.ctrlKey || event.metaKey || event.altKey) zoom(Math.exp(event.deltaY / 300), timeAt(Math.max(labels, mouse(event)[0])));
		else return;
		event.preventDefault();
	}, { passive: false });
	for (const id of ["histogram-of", "histogram-by"]) on(id, "change", () => { fresh.delete("histogram"); refresh(); });
	on("flame-of", "change", () => { fresh.delete("flame"); refresh(); });
	on("flame-all", "click", () => showFlame(flame.root));
	on("flame-graph", "click", event => showFlame(flameAt(event)?.at));
	on("flame-graph", "mousemove", showFlameTip);
	on("flame-graph", "mouseleave", () => { $("tip").style.display = "none"; });
	window.addEventListener("keydown", keys);
	const resized = new ResizeObserver(() => { draw(); drawFlame(); });
	for (const id of ["scroll", "flame-scroll"]) resized.observe($(id));
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
		readTheme();
		for (const box of $("kinds").querySelectorAll("input")) box.nextSibling.style.background = colour(box.dataset.kind);
		draw();
		drawFlame();
	});
}

readTheme();
if (window.innerWidth <= 700) {
	$("side").open = false;
	setMode("move");
} else setMode("select");
const numeric = new Set(["length"]), textual = new Set(["name", "track"]);
for (const { fields } of formats) for (const [name, kind] of fields) {
	if (kind === "t" || kind === "s") textual.add(name);
	else numeric.add(name);
}
choices($("histogram-of"), [...numeric, ...[...textual].filter(name => !numeric.has(name))].map(name => [name, name]));
choices($("flame-of"), flameSources());
makeRows();
makeKinds();
linkTables();
wire();
showRecord();
openTab("timeline");
drawNow();
refresh();
document.documentElement.dataset.ready = performance.now().toFixed(0);
