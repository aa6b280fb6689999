"use strict";
// Sort a table by a column: numbers by value, the rest by name; what has no value stays at the end.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    heading.querySelector("button").addEventListener("click", () => {
      const up = heading.getAttribute("aria-sort") === "descending" || (column === 0 && !heading.hasAttribute("aria-sort"));
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => {
        const cell = row.cells[column];
        return "value" in cell.dataset ? cell.dataset.value : cell.textContent.trim();
      };
      const order = (a, b) => {
        const [x, y] = [key(a), key(b)];
        if (x === "" || y === "") return (x === "") - (y === "");
        const numeric = !Number.isNaN(Number(x)) && !Number.isNaN(Number(y));
        const less = numeric ? Number(x) - Number(y) : x.localeCompare(y);
        return up ? less : -less;
      };
      // Each block of rows for itself, its title staying on top.
      for (const body of table.tBodies) body.append(...[...body.rows].filter((row) => !row.matches(".block")).sort(order));
    });
  });
}

// Save a figure, dark ink on white, as SVG or as PNG of twice its size.
function standalone(svg) {
  const copy = svg.cloneNode(true);
  const [width, height] = [Number(svg.dataset.width), Number(svg.dataset.height)];
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.style.color = "#222222";
  copy.style.background = "#ffffff";
  copy.style.fontFamily = "sans-serif";
  return { text: new XMLSerializer().serializeToString(copy), width, height };
}

function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

for (const button of document.querySelectorAll("[data-save]")) {
  button.addEventListener("click", () => {
    const figure = button.closest("figure");
    const { text, width, height } = standalone(figure.querySelector("svg"));
    const blob = new Blob([text], { type: "image/svg+xml" });
    if (button.dataset.save === "svg") return download(blob, `${figure.id}.svg`);
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * width;
      canvas.height = 2 * height;
      const context = canvas.getContext("2d");
      context.fillStyle = "#ffffff";
      context.fillRect(0, 0, canvas.width, canvas.height);
      context.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((png) => download(png, `${figure.id}.png`), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  });
}

// A link to a figure that is folded away opens it.
function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target) target.querySelector("details")?.setAttribute("open", "");
}
addEventListener("hashchange", unfold);
unfold();

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
