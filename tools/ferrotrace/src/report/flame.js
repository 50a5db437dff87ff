// SPDX-License-Identifier: GPL-2.0
"use strict";

// A click on a frame shows it over the whole width; a click on the sum shows all again.
(() => {
	const WIDTH = 1200, CHAR = 7.3, TEXT_FROM = 24;
	const frames = [...document.querySelectorAll("#frames g")].map(g => ({
		g, x: +g.dataset.x, w: +g.dataset.w, depth: +g.dataset.d, rect: g.querySelector("rect"), text: g.querySelector("text"),
		title: g.querySelector("title").textContent,
	}));
	for (const f of frames) f.name = f.title.replace(/: [^:]*$/, "");
	const close = 1e-8;

	function zoom(to) {
		for (const f of frames) {
			const around = f.depth <= to.depth && f.x <= to.x + close && f.x + f.w >= to.x + to.w - close;
			const within = f.x >= to.x - close && f.x + f.w <= to.x + to.w + close;
			const x = around ? 0 : (f.x - to.x) / to.w * WIDTH, w = around ? WIDTH : f.w / to.w * WIDTH;
			f.g.style.display = around || within ? "" : "none";
			f.g.classList.toggle("above", around && f.depth < to.depth);
			f.rect.setAttribute("x", x);
			f.rect.setAttribute("width", w);
			f.text.setAttribute("x", x + 3);
			const room = Math.floor((w - 6) / CHAR);
			f.text.textContent = w < TEXT_FROM ? "" : f.name.length <= room ? f.name : `${f.name.slice(0, room - 2)}..`;
		}
	}

	function search() {
		const text = prompt("Search for a part of a name");
		if (text === null) return;
		let found = 0, until = -1;
		for (const f of [...frames].sort((a, b) => a.x - b.x || a.depth - b.depth)) {
			const is = text !== "" && f.name.includes(text);
			f.g.classList.toggle("found", is);
			// A frame within another one that was found counts once.
			if (is && f.x >= until - close) {
				found += f.w;
				until = f.x + f.w;
			}
		}
		document.getElementById("found").textContent = text && `found: ${(found * 100).toFixed(2)} %`;
	}

	for (const f of frames) f.g.addEventListener("click", () => zoom(f));
	document.getElementById("all").addEventListener("click", () => zoom(frames[0]));
	document.getElementById("search").addEventListener("click", search);
	window.addEventListener("keydown", event => {
		if (event.key === "/" || event.key === "f" && event.ctrlKey) {
			event.preventDefault();
			search();
		} else if (event.key === "Escape") zoom(frames[0]);
	});
})();
