// Begins: with the key of this tab if there is one, else by asking for it.

import { Api } from "./api.js";
import { callerOf, showLogin } from "./login.js";
import { BackOff, pause } from "./pause.js";
import { dropKey, keepKey, readKey } from "./session.js";
import { Connection } from "./connection.js";
import { Shell } from "./shell.js";

const root = document.getElementById("root");
let shell = null;

function open(key, caller) {
  keepKey(key);
  const api = new Api(key);
  api.onUnauthenticated = () => logOut("The API does not take this key any more.");
  shell = new Shell(root, api, caller, () => logOut(""));
}

function logOut(why) {
  dropKey();
  shell?.close();
  shell = null;
  showLogin(root, why, open);
}

async function begin() {
  const key = readKey();
  if (key === null) return showLogin(root, "", open);
  const connection = new Connection();
  const backOff = new BackOff();
  for (;;) {
    try {
      const caller = await callerOf(key);
      connection.hide();
      return open(key, caller);
    } catch (fault) {
      if (!fault.passes) return logOut(fault.message);
      connection.failed(fault);
      await pause(backOff.next());
    }
  }
}

// A key that is put into the address of a page that is open already.
window.addEventListener("hashchange", () => {
  if (!location.hash.startsWith("#key=")) return;
  shell?.close();
  shell = null;
  begin();
});

begin();
