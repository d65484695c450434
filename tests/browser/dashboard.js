"use strict";
// Uses the dashboard as an operator does: a wrong token, the right one, and then the numbers.
(() => {
  const find = (selector) => document.querySelector(selector);
  const until = (test) => new Promise((resolve) => {
    const poll = () => (test() ? resolve() : setTimeout(poll, 20));
    poll();
  });
  const connect = (token) => {
    find("#token").value = token;
    find("#ask").requestSubmit();
  };
  const run = async () => {
    const lines = [];
    await until(() => !find("#ask").hidden);
    lines.push(`first: ${find("#link").textContent}`);
    connect("wrong-token-wrong-token");
    await until(() => find("#link").textContent.includes("wrong"));
    lines.push(`second: ${find("#link").textContent}`);
    connect("right-token-right-token");
    await until(() => find("#link").textContent === "live" && find("#cards b")?.textContent > "0");
    lines.push(`title: ${find("#title").textContent.split(" ")[0]}`, `cards: ${document.querySelectorAll(".card").length}`);
    lines.push(`tables: ${[...document.querySelectorAll("h2")].map((head) => head.textContent).join(", ")}`);
    for (const row of document.querySelectorAll("tbody tr")) {
      lines.push(`row: ${[...row.children].map((cell) => cell.textContent).join(" | ")}`);
    }
    const root = document.documentElement;
    lines.push(`fits: ${root.scrollWidth <= root.clientWidth}`);
    lines.push(`markup: ${document.querySelectorAll("#tables :is(script, img, a, iframe)").length}`);
    lines.push(`ran: ${window.ran ?? "nothing"}`, `background: ${getComputedStyle(document.body).backgroundColor}`);
    lines.push(`token in the page: ${location.href.includes("token") || find("#token").value !== ""}`);
    const verdict = document.createElement("div");
    verdict.id = "verdict";
    verdict.hidden = true;
    verdict.textContent = lines.join("\n");
    document.body.append(verdict);
  };
  run();
})();
