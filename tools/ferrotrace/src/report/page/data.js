// SPDX-License-Identifier: GPL-2.0

// The recording: items (slices and instants) in typed arrays, their fields, and searches.

const $ = id => document.getElementById(id);
const data = JSON.parse($("data").textContent);
const { names, texts, tracks, formats, stacks } = data;

// Binary data, compressed, as text.
async function unpack(text) {
	const binary = atob(text);
	if (!binary) return new Uint8Array();
	const packed = new Uint8Array(binary.length);
	for (let i = 0; i < packed.length; i++) packed[i] = binary.charCodeAt(i);
	const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
	return new Uint8Array(await new Response(stream).arrayBuffer());
}

const bytes = await unpack($("items").textContent);
let place = 0;

// Numbers have seven bits in each byte, the lowest first.
function number() {
	let byte = bytes[place++];
	if (byte < 128) return byte;
	let value = byte & 127, unit = 128;
	do {
		byte = bytes[place++];
		value += (byte & 127) * unit;
		unit *= 128;
	} while (byte > 127);
	return value;
}

function exactNumber() {
	let value = 0n, shift = 0n, byte;
	do {
		byte = bytes[place++];
		value |= BigInt(byte & 127) << shift;
		shift += 7n;
	} while (byte > 127);
	return value;
}

// Items are in the order of tracks, and of times within a track; slices within others come after them.
const count = tracks.reduce((sum, track) => sum + track.items, 0);
const starts = new Float64Array(count), lengths = new Float64Array(count), nameOf = new Uint32Array(count);
const trackOf = new Uint16Array(count), fieldsAt = new Uint32Array(count);
const INSTANT = -1;
{
	let item = 0;
	for (const [index, track] of tracks.entries()) {
		track.index = index;
		track.begin = item;
		let at = data.first;
		for (const end = item + track.items; item < end; item++) {
			starts[item] = at += number();
			lengths[item] = number() - 1;
			nameOf[item] = number();
			trackOf[item] = index;
			const size = number();
			if (size) fieldsAt[item] = place;
			place += size;
		}
		track.end = item;
		track.label = track.comm ? `${track.comm} (${track.name.replace("thread ", "")})` : track.name;
	}
}
const ends = item => starts[item] + Math.max(0, lengths[item]);
const whole = { from: Math.min(0, data.first), to: Math.max(data.span, data.first + 1, 1) };

const UNITS = { ns: 1, us: 1e3, ms: 1e6, s: 1e9 };
function time(nanos) {
	const [unit, one] = Object.entries(UNITS).findLast(([, one]) => Math.abs(nanos) >= one) ?? ["ns", 1];
	return `${+(nanos / one).toPrecision(6)} ${unit}`;
}
const plain = value => Number.isInteger(value) ? value.toLocaleString("en") : String(+value.toPrecision(6));
const percent = part => `${(100 * part).toFixed(part < 0.1 ? 2 : 1)} %`;
const isTime = field => /^(length|duration|.*_ns|latency|delay)$/.test(field);
const show = (field, value) => isTime(field) ? time(value) : plain(value);

// A kind has the same colour in all pages. The threads of a program are of its kind.
const kindOf = names.map(name => name.replace(/-\d+$/, ""));
const hash = text => [...text].reduce((sum, c) => Math.imul(sum ^ c.codePointAt(0), 16777619) >>> 0, 2166136261);
const shades = new Map();
function colour(kind) {
	if (!shades.has(kind)) {
		// All bits of the hash count.
		let bits = hash(kind);
		bits = Math.imul(bits ^ bits >>> 16, 0x85ebca6b);
		bits = Math.imul(bits ^ bits >>> 13, 0xc2b2ae35);
		bits = (bits ^ bits >>> 16) >>> 0;
		shades.set(kind, `hsl(${bits % 24 * 15} ${+theme.saturation + (bits >>> 16) % 3 * 8}% ${+theme.lightness + ((bits >>> 8) % 3 - 1) * 7}%)`);
	}
	return shades.get(kind);
}
let theme = {};
function readTheme() {
	shades.clear();
	const style = getComputedStyle(document.documentElement);
	theme = Object.fromEntries(["page", "text", "soft", "line", "lane", "dim", "mark", "range", "busy", "saturation", "lightness"]
		.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
}

// The names of the calls of a stack, the outermost first.
function stackNames(stack) {
	const calls = [];
	for (let at = stack; at > 0; at = stacks.parent[at]) calls.push(names[stacks.name[at]]);
	return calls.reverse();
}

// Calls `take` with each field of an item: its name, its kind and a number. Those of texts and stacks number them.
function eachField(item, take) {
	if (!fieldsAt[item]) return;
	place = fieldsAt[item];
	for (const [name, kind] of formats[number()].fields) {
		let value = number();
		if (kind === "i") value = value % 2 ? -(value + 1) / 2 : value / 2;
		if (take(name, kind, value) === false) return;
	}
}

// All fields as texts, with all digits.
function fieldTexts(item) {
	if (!fieldsAt[item]) return [];
	place = fieldsAt[item];
	return formats[number()].fields.map(([name, kind]) => {
		const value = exactNumber();
		if (kind === "t") return [name, texts[Number(value)]];
		if (kind === "s") return [name, stackNames(Number(value))];
		if (kind === "x") return [name, `0x${value.toString(16)}`];
		const signed = kind === "i" ? value & 1n ? -(value + 1n) / 2n : value / 2n : value;
		return [name, isTime(name) ? `${signed} (${time(Number(signed))})` : String(signed)];
	});
}

// The number or text of one field; `undefined` if there is none.
function fieldOf(item, wanted) {
	if (wanted === "length") return lengths[item] === INSTANT ? undefined : lengths[item];
	if (wanted === "name") return names[nameOf[item]];
	if (wanted === "track") return tracks[trackOf[item]].label;
	let found;
	eachField(item, (name, kind, value) => {
		if (name !== wanted) return true;
		found = kind === "t" ? texts[value] : kind === "s" ? stackNames(value).join(";") : value;
		return false;
	});
	return found;
}

const stackOf = item => {
	let found = 0;
	eachField(item, (_, kind, value) => { if (kind === "s") found = value; });
	return found;
};

const quoted = text => /^[\w.:/+-]+$/.test(text) ? text : `"${text.replace(/["\\]/g, "\\$&")}"`;

function compare(value, operator, wanted) {
	if (value === undefined) return false;
	if (typeof value === "number") {
		const [, digits, unit] = /^(-?(?:0x[\da-f]+|[\d.]+(?:e\d+)?))(ns|us|ms|s)?$/i.exec(wanted) ?? [];
		const than = digits === undefined ? NaN : Number(digits) * (UNITS[unit?.toLowerCase()] ?? 1);
		switch (operator) {
		case "=": return value === than;
		case "!=": return value !== than;
		case "<": return value < than;
		case ">": return value > than;
		case "<=": return value <= than;
		default: return value >= than;
		}
	}
	return operator === "=" ? value === wanted : operator === "!=" ? value !== wanted : false;
}

// Returns a function that tells whether an item is searched for, or nothing for an empty search.
function parseSearch(text) {
	const terms = [];
	for (const [, minus, field, operator, inQuotes, bare] of
		text.matchAll(/(-?)(?:([\w.]+)(<=|>=|!=|=|<|>))?(?:"((?:[^"\\]|\\.)*)"?|(\S+))/g)) {
		const wanted = inQuotes === undefined ? bare : inQuotes.replace(/\\(.)/g, "$1");
		let is;
		if (field === "name") {
			const known = names.map(name => compare(name, operator, wanted));
			is = item => known[nameOf[item]];
		} else if (field) {
			is = item => compare(fieldOf(item, field), operator, wanted);
		} else {
			// Each text is looked at once only.
			const lower = wanted.toLowerCase(), has = one => one.toLowerCase().includes(lower);
			const inName = names.map(has), inText = texts.map(has), inTrack = tracks.map(track => has(track.label) || has(track.name));
			const inStack = stacks.parent.map(() => false);
			for (let at = 1; at < inStack.length; at++) inStack[at] = inStack[stacks.parent[at]] || inName[stacks.name[at]];
			is = item => {
				let found = inName[nameOf[item]] || inTrack[trackOf[item]];
				if (!found) eachField(item, (_, kind, value) => !(found = kind === "t" ? inText[value] : kind === "s" && inStack[value]));
				return found;
			};
		}
		terms.push(minus ? item => !is(item) : is);
	}
	return terms.length ? item => terms.every(is => is(item)) : null;
}
