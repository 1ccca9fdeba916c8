// Numbers and bars follow the slider, and lanes can be zoomed. Without this the page can be read
// as it is, at the round trip that was measured.
(() => {
  document.documentElement.classList.add("js");
  const ms = (it) =>
    it < 0.0005 ? "0 ms"
    : it < 1 ? it.toFixed(3) + " ms"
    : it < 10 ? it.toFixed(2) + " ms"
    : it < 100 ? it.toFixed(1) + " ms"
    : it < 1000 ? it.toFixed(0) + " ms"
    : it < 10000 ? (it / 1e3).toFixed(2) + " s"
    : it < 120000 ? (it / 1e3).toFixed(1) + " s"
    : (it / 6e4).toFixed(1) + " min";
  // An amount is a time that stays, and a number of round trips.
  const pair = (text) => text.split(",").map(Number);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const texts = all("[data-ms]").map((it) => [it, pair(it.dataset.ms)]);
  const NAMES = ["x", "width", "x1", "x2"];
  const bars = all("[data-scale]").map((scale) => [
    pair(scale.dataset.scale),
    [...scale.querySelectorAll("[data-at]")].map((it) => [
      it,
      it.dataset.at.split(";").map((one) => {
        const [name, amount] = one.split(":");
        return [NAMES[name], pair(amount)];
      }),
    ]),
  ]);
  const show = (rtt) => {
    const at = ([fixed, trips]) => fixed + trips * rtt;
    for (const [it, amount] of texts) it.textContent = ms(at(amount));
    for (const [scale, parts] of bars) {
      const whole = at(scale) || 1;
      for (const [it, edges] of parts) {
        for (const [name, amount] of edges) it.setAttribute(name, (at(amount) / whole) * 100 + "%");
      }
    }
  };

  const slider = document.getElementById("rtt");
  if (slider) {
    const [least, most] = [Number(slider.dataset.least), Number(slider.dataset.most)];
    const measured = Number(slider.dataset.measured);
    const place = (rtt) => (1000 * Math.log(rtt / least)) / Math.log(most / least);
    let frame = 0;
    const to = (rtt) => {
      slider.setAttribute("aria-valuetext", ms(rtt));
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => show(rtt));
    };
    slider.addEventListener("input", () => to(least * (most / least) ** (slider.value / 1000)));
    document.getElementById("reset").addEventListener("click", () => {
      slider.value = place(measured);
      to(measured);
    });
    slider.value = place(measured);
  }

  const TRIP = 16; // CSS pixels
  const TICKS = 64;
  for (const lanes of all(".lanes")) {
    const [scroll, drawing] = [lanes.querySelector(".scroll"), lanes.querySelector("svg")];
    // The width of a trip in the middle of all.
    const widths = [...drawing.querySelectorAll("rect.network")]
      .map((it) => parseFloat(it.getAttribute("width"))).sort((a, b) => a - b);
    const trip = ((widths[widths.length >> 1] || 100) / 100) * scroll.clientWidth;
    let zoom = 1;
    const set = (to, x = scroll.clientWidth / 2) => {
      const before = zoom;
      zoom = Math.min(1024, Math.max(1, to));
      const at = (scroll.scrollLeft + x) / before;
      drawing.style.width = zoom * 100 + "%";
      drawing.classList.toggle("near", zoom * trip >= 8);
      drawing.classList.toggle("wide", (zoom * scroll.clientWidth) / TICKS >= 80);
      scroll.scrollLeft = at * zoom - x;
    };
    // At first trips can be seen.
    set(TRIP / Math.max(trip, 1e-3), 0);
    for (const it of lanes.querySelectorAll("button")) {
      it.addEventListener("click", () => set(it.value === "0" ? 1 : zoom * Number(it.value)));
    }
    scroll.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      set(zoom * 2 ** (-event.deltaY / 200), event.clientX - scroll.getBoundingClientRect().left);
    }, { passive: false });
  }
})();
