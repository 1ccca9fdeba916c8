// What is wrong with the texts of a drawing: outside of it, or on each other.
const textsOf = (svg) =>
  [...svg.querySelectorAll("text")].map((it) => ({ text: it.textContent, box: it.getBoundingClientRect() }));

const textFaults = (svg, say) => {
  const frame = svg.getBoundingClientRect();
  const title = svg.querySelector("title").textContent;
  const boxes = textsOf(svg);
  for (const { text, box } of boxes) {
    if (box.left < frame.left - 0.5 || box.right > frame.right + 0.5 ||
        box.top < frame.top - 0.5 || box.bottom > frame.bottom + 0.5) {
      say(`outside of its chart: ${text} (${title})`);
    }
  }
  // The box of a text is higher than its letters.
  const meet = (a, b) => {
    const slack = Math.min(a.height, b.height) * 0.15;
    return a.left < b.right - 0.5 && b.left < a.right - 0.5 &&
      a.top + slack < b.bottom - slack && b.top + slack < a.bottom - slack;
  };
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (meet(a.box, b.box)) say(`${a.text} and ${b.text} overlap (${title})`);
  }));
};

// Of a picture of transfers: for each of its ways the arrows of each trip.
const arrowsOf = (svg) => [...svg.querySelectorAll(".strip")].map((strip) =>
  [...strip.querySelectorAll(".trip")].map((trip) => trip.querySelectorAll(".go,.come").length));
