// Runs in a copy of a report, and tells the page around it what is wrong with it.
addEventListener("load", () => {
  const faults = [];
  const say = (fault) => { if (faults.length < 40) faults.push(fault); };
  const [width, scheme] = location.hash.slice(1).split(",");
  const root = document.documentElement;

  const scrolls = (when) => {
    if (root.scrollWidth > root.clientWidth) {
      const wide = [...document.querySelectorAll("body *")].find((it) =>
        it.getBoundingClientRect().right > root.clientWidth + 1 && !it.closest(".scroll"));
      say(`${when} the page scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}, ` +
        (wide ? wide.outerHTML.slice(0, 200) : "?"));
    }
  };
  if (innerWidth !== Number(width)) say(`the frame is ${innerWidth} wide`);
  scrolls("closed,");
  document.querySelectorAll("details").forEach((it) => { it.open = true; });
  scrolls("open,");

  // Colours, as relative luminance in the sense of WCAG 2.
  const parts = (color) => (color.match(/[\d.]+/g) || []).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((it) => it / 255)
      .map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const contrast = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const behind = (element) => {
    for (let it = element; it; it = it.parentElement) {
      const color = parts(getComputedStyle(it).backgroundColor);
      if (color.length === 3 || color[3] > 0) return color;
    }
    return [255, 255, 255];
  };
  const paper = luminance(behind(document.body));
  if ((scheme === "dark") !== paper < 0.2) say(`the page is not ${scheme}`);
  const hasText = (it) => [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  for (const it of document.querySelectorAll("body *")) {
    if (!hasText(it) || ["SCRIPT", "STYLE", "title", "desc"].includes(it.tagName)) continue;
    const style = getComputedStyle(it);
    const color = parts(it.tagName === "text" ? style.fill : style.color);
    const ratio = contrast(color, behind(it));
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}: ${it.outerHTML.slice(0, 200)}`);
  }

  // Of the picture the page shows the one that fits.
  const pictures = [...document.querySelectorAll("svg.transfer")].filter((it) => it.getClientRects().length);
  if (pictures.length !== Math.min(1, document.querySelectorAll("svg.transfer").length)) say("not one picture");
  pictures.forEach((it) => textFaults(it, say));
  const charts = [...document.querySelectorAll("svg:not(.transfer)")];
  for (const svg of charts) {
    const frame = svg.getBoundingClientRect();
    const boxes = textsOf(svg);
    textFaults(svg, say);
    const title = svg.querySelector("title");
    if (!title || !title.textContent.trim()) say("a chart has no title");
    const caption = svg.closest("figure").querySelector("figcaption").textContent;
    if (caption !== title.textContent + ".") say(`caption and title differ: ${caption}`);
    if (svg.getAttribute("aria-labelledby").split(" ").some((id) => !document.getElementById(id))) {
      say("a chart is named by what is not there");
    }
    // The names of the axes: on top of the vertical one, and below the horizontal one.
    const name = (at) => boxes.find(({ text, box }) => /[a-z]{2}/.test(text) && at(box));
    const below = (box) => box.bottom > frame.bottom - frame.height * 0.12;
    if (!name(below)) say(`no name of the horizontal axis: ${caption}`);
    if (svg.querySelector("polyline[stroke-width='8']") &&
        !name((box) => box.top < frame.top + frame.height * 0.1)) {
      say(`no name of the vertical axis: ${caption}`);
    }
  }
  for (const id of [...document.querySelectorAll("[id]")].map((it) => it.id)) {
    if (document.querySelectorAll(`[id="${id}"]`).length > 1) say(`the id ${id} is there twice`);
  }
  for (const it of document.querySelectorAll("header,main,footer")) {
    if (it.parentElement !== document.body) say("a landmark is not one");
  }
  if (!document.querySelector("main") || !document.querySelector("h1")) say("no main or no h1");
  for (const it of document.querySelectorAll("table")) {
    if (!it.caption || !it.caption.textContent.trim()) say("a table has no caption");
  }
  const loaded = performance.getEntriesByType("resource").map((it) => it.name);
  if (loaded.length) say(`loaded: ${loaded}`);
  const arrows = pictures.flatMap(arrowsOf);
  parent.postMessage({ width: Number(width), scheme, charts: charts.length, arrows, faults }, "*");
});
