"use strict";
/* /login#TOKEN: a browser does not send what follows the #, so no server's log has the token. This
   script sends the token once, and the coordinator answers with a cookie that scripts can't read. */
/* SPDX-License-Identifier: Apache-2.0 */
async function login() {
  const token = location.hash.slice(1);
  const link = document.createElement("a");
  link.href = "https://" + location.hostname + ":8444/";
  link.textContent = link.href;
  document.getElementById("other").replaceChildren(link);
  if (token === "") return;
  history.replaceState(null, "", "/login");
  try {
    const answer = await fetch("/v1/login", {method: "POST", body: token, cache: "no-store"});
    if (answer.ok) {
      location.replace("/");
      return;
    }
    tell((await answer.json()).message);
  } catch (error) {
    tell("The coordinator can't be reached. Is it running?");
  }
}
function tell(sentence) {
  const box = document.getElementById("outcome");
  box.hidden = false;
  box.textContent = sentence.charAt(0).toUpperCase() + sentence.slice(1) + ".";
}
addEventListener("hashchange", () => { if (location.hash !== "") login(); });
addEventListener("DOMContentLoaded", login);
