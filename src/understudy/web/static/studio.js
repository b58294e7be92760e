/* Progress, copying and dropped files. Everything else is plain HTML, or htmx. */
"use strict";

const contentOf = (form) => form && new URLSearchParams(new FormData(form)).toString();

function watch(section) {
  let source = null;
  const form = section.closest("form");
  const before = contentOf(form);
  const set = (selector, text) => {
    const element = section.querySelector(selector);
    if (element.textContent !== text) element.textContent = text;
  };
  const open = () => {
    source = new EventSource(section.dataset.events);
    source.onmessage = (event) => {
      const report = JSON.parse(event.data);
      set(".line", report.line);
      set(".left", report.left);
      const bar = section.querySelector("progress");
      if (report.percent === null) bar.removeAttribute("value");
      else bar.value = report.percent;
      const notes = section.querySelector(".job-notes");
      for (const note of report.notes.slice(notes.children.length)) {
        const item = document.createElement("li");
        item.textContent = note;
        notes.append(item);
      }
      if (report.over) {
        source.close();
        if (contentOf(form) !== before) form.submit();  // by GET: what was typed comes with it
        else window.location.reload();
      }
    };
  };
  // A browser opens few connections to one address: a tab that nobody sees needs none.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) { source.close(); source = null; }
    else if (!document.hidden && !source) open();
  });
  if (!document.hidden) open();
}

async function uploadAll(area, files) {
  for (const file of files) await upload(area, file);
  if (area.dataset.stay && !area.dataset.wrong) window.location.assign(area.dataset.stay);
}

async function upload(area, file) {
  const line = area.querySelector(".line");
  const token = document.querySelector("meta[name=form-token]").content;
  line.textContent = file.name;
  let reason = "";
  try {
    const address = new URL(area.dataset.upload, window.location);
    address.searchParams.set("name", file.name);
    const answer = await fetch(address, {
      method: "PUT", body: file, headers: { "x-understudy-form": token },
    });
    if (answer.ok) {
      if (area.dataset.stay) return;
      const target = area.dataset.go || "/data?source=";
      window.location.assign(target + encodeURIComponent((await answer.json()).place));
      return;
    }
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    reason = page.querySelector(".fault") ? page.querySelector(".fault").textContent : answer.status;
  } catch (error) {
    reason = error.name;
  }
  area.dataset.wrong = "true";
  line.textContent = line.dataset.failed.replace("{reason}", reason);
}

// Cells of a photo: arrow keys go from one to the next, and dragging marks them all.
function cells(area) {
  const boxes = [...area.querySelectorAll("input")];
  const across = Number(area.dataset.cells);
  const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across };
  let first = null;
  area.addEventListener("keydown", (event) => {
    const next = boxes[boxes.indexOf(event.target) + steps[event.key]];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });
  area.addEventListener("pointerdown", (event) => {
    first = event.target;
    first.dataset.mark = first.checked ? "" : "on";
  });
  area.addEventListener("pointerover", (event) => {
    if (event.buttons !== 1 || !boxes.includes(first) || event.target === first) return;
    first.checked = Boolean(first.dataset.mark);
    if (boxes.includes(event.target)) event.target.checked = first.checked;
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-cells]").forEach(cells);
  document.querySelectorAll("[data-events]:not([data-events=''])").forEach(watch);
  for (const area of document.querySelectorAll("[data-upload]")) {
    const input = area.querySelector("input[type=file]");
    input.addEventListener("change", () => uploadAll(area, input.files));
    // Chosen while the page was still loading: no change follows.
    if (input.files.length) uploadAll(area, input.files);
    area.addEventListener("dragover", (event) => event.preventDefault());
    area.addEventListener("drop", (event) => {
      event.preventDefault();
      uploadAll(area, event.dataTransfer.files);
    });
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent)
    .then(() => { button.textContent = button.dataset.copied; });
});
