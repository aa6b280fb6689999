"use strict";

const byId = (id) => document.getElementById(id);
const percent = (p) => `${(100 * p).toFixed(1)} %`;
const cards = [];
let most = Infinity;  // bytes of an upload

function say(card) {
  // The threshold is the page's: moving it asks nobody.
  const { element, answer } = card;
  if (!answer) return;
  const sure = 100 * answer.top[0].probability >= Number(byId("least").value);
  element.classList.toggle("unsure", !sure);
  element.querySelector("h2").textContent = sure
    ? `${answer.top[0].class}, ${percent(answer.top[0].probability)}` : "Not sure";
}

function fail(card, why) {
  card.element.classList.add("failed");
  card.element.querySelector("img").hidden = true;  // rather than the sign of a broken image
  card.element.querySelector("h2").textContent = "No answer";
  card.element.querySelector(".why").textContent = why;
}

async function ask(card, file) {
  const { element } = card;
  try {
    if (file.size > most) return fail(card, `This file is larger than ${most / 1e6} MB.`);
    const response = await fetch("/predict?reject=0", {
      method: "POST", body: file, headers: { "content-type": "application/octet-stream" },
    });
    const found = await response.json();
    if (!response.ok) return fail(card, found.error);
    card.answer = found.answers[0];
    for (const { class: name, probability } of card.answer.top) {
      const line = document.createElement("li"), label = document.createElement("span");
      const bar = document.createElement("meter"), number = document.createElement("b");
      label.textContent = label.title = name;
      bar.value = probability;
      bar.setAttribute("aria-label", `${name}, ${percent(probability)}`);
      number.textContent = percent(probability);
      line.append(label, bar, number);
      element.querySelector("ol").append(line);
    }
    say(card);
  } catch {
    fail(card, "The server did not answer; is it still running?");
  } finally {
    element.classList.remove("waiting");
  }
}

async function take(files) {
  const waiting = [...files].map((file) => {
    const element = byId("card").content.cloneNode(true).querySelector("article");
    const image = element.querySelector("img"), url = URL.createObjectURL(file);
    image.onload = () => URL.revokeObjectURL(url);
    image.onerror = () => { URL.revokeObjectURL(url); image.hidden = true; };  // of a kind that browsers do not show
    image.src = url;
    image.alt = file.name;
    element.querySelector("h2").textContent = "…";
    element.querySelector(".name").textContent = file.name;
    element.classList.add("waiting");
    const card = { element, answer: null };
    cards.push(card);
    return [card, file];
  });
  byId("answers").prepend(...waiting.map(([card]) => card.element));
  for (const [card, file] of waiting) await ask(card, file);  // one after another, to leave the server room
}

byId("file").addEventListener("change", (event) => { take(event.target.files); event.target.value = ""; });
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    byId("drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop") take(event.dataTransfer.files);
  });
}
document.addEventListener("paste", (event) => take(event.clipboardData.files));
byId("least").addEventListener("input", () => {
  byId("shown").textContent = `${byId("least").value} %`;
  cards.forEach(say);
});

function offer(count) {
  // Pictures that whoever started the server named.
  for (let i = 0; i < count; i++) {
    const button = document.createElement("button"), image = document.createElement("img");
    image.src = `/examples/${i}`;
    image.alt = button.title = `Example ${i + 1}`;
    button.append(image);
    button.addEventListener("click", async () => {
      const content = await (await fetch(image.src)).blob();
      take([new File([content], button.title)]);
    });
    byId("examples").append(button);
  }
  byId("examples").hidden = !count;
}

function describe(model) {
  const tested = Object.entries(model.domains);
  let words = "No test samples were kept when it was fitted, so nobody has measured it.";
  if (tested.length) {
    const [worst, least] = tested.reduce((a, b) => (b[1] < a[1] ? b : a));
    const on = model.test_samples ? ` ${model.test_samples} test samples` : " test samples";
    words = `${model.accuracy.toFixed(1)} % of${on} were right` + (tested.length > 1
      ? ` (mean over ${tested.length} domains); the worst was ${worst}, ${least.toFixed(1)} %.` : ".");
    words += " Photographs that look otherwise than these may do worse.";
  }
  byId("accuracy").textContent = words;
  byId("sure").textContent = model.calibrated
    ? "Probabilities are calibrated: of answers that are 80 % sure, about 80 % are right, on photographs like its own."
    : "Probabilities are not calibrated: a high one does not mean that the answer is right.";
}

byId("here").textContent = location.href;
fetch("/model").then((response) => response.json()).then((model) => {
  most = 1e6 * model.megabytes;
  const said = [`${model.classes.length} classes`, model.method, model.encoder];
  byId("about").textContent = said.join(" · ");
  byId("classes").textContent = model.classes.join(", ");
  describe(model);
  offer(model.examples);
  byId("least").disabled = !model.calibrated;  // there a least probability says nothing
  byId("least").value = Math.round(100 * model.reject);
  byId("shown").textContent = `${byId("least").value} %`;
});
