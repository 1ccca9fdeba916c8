// Runs in a copy of a report, and tells the page around it what is wrong with it.
addEventListener("load", async () => {
  const faults = [];
  const say = (fault) => { if (faults.length < 40) faults.push(fault); };
  const [width, scheme] = location.hash.slice(1).split(",");
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];

  const scrolls = (when) => {
    if (root.scrollWidth > root.clientWidth) {
      const wide = all("body *").find((it) =>
        it.getBoundingClientRect().right > root.clientWidth + 1 && !it.closest(".scroll"));
      say(`${when} the page scrolls sideways: ${root.scrollWidth} > ${root.clientWidth}, ` +
        (wide ? wide.outerHTML.slice(0, 200) : "?"));
    }
  };
  if (innerWidth !== Number(width)) say(`the frame is ${innerWidth} wide`);
  if (!root.classList.contains("js")) say("the script of the page did not run");
  scrolls("closed,");
  all("details").forEach((it) => { it.open = true; });
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
  if ((scheme === "dark") !== luminance(behind(document.body)) < 0.2) say(`the page is not ${scheme}`);
  const hasText = (it) => [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  for (const it of all("body *")) {
    if (!hasText(it) || ["SCRIPT", "STYLE", "title", "desc"].includes(it.tagName)) continue;
    const style = getComputedStyle(it);
    const ratio = contrast(parts(it.tagName === "text" ? style.fill : style.color), behind(it));
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}: ${it.outerHTML.slice(0, 200)}`);
  }
  for (const id of all("[id]").map((it) => it.id)) {
    if (all(`[id="${id}"]`).length > 1) say(`the id ${id} is there twice`);
  }
  for (const it of all("a[href^='#']")) {
    if (!document.getElementById(it.hash.slice(1))) say(`${it.hash} leads nowhere`);
  }
  if (!document.querySelector("main") || !document.querySelector("h1")) say("no main or no h1");
  for (const it of all("table")) if (!it.caption.textContent.trim()) say("a table has no caption");
  if (all("img,iframe,link,object").length) say("there is what texts may have brought in");
  const loaded = performance.getEntriesByType("resource").map((it) => it.name);
  if (loaded.length) say(`loaded: ${loaded}`);

  // Numbers at the round trip that was measured, and at the end of the slider.
  const texts = all("[data-ms]");
  const first = texts.map((it) => it.textContent);
  const slider = document.getElementById("rtt");
  slider.value = 1000;
  slider.dispatchEvent(new Event("input"));
  await new Promise((then) => setTimeout(then, 200));
  const moved = texts.map((it, at) => {
    const [fixed, trips] = it.dataset.ms.split(",").map(Number);
    return { fixed, trips, at_first: first[at], at_most: it.textContent };
  });
  const drawing = document.querySelector(".fall");
  const ends = drawing ? [...drawing.querySelectorAll("rect")].map((it) =>
    parseFloat(it.getAttribute("x")) + parseFloat(it.getAttribute("width"))) : [100];
  scrolls("moved,");
  parent.postMessage({
    width: Number(width), scheme, bars: all("[data-at]").length, widest: Math.max(...ends), moved, faults,
  }, "*");
});
