// The Debian packages that whole-system tests and the evidence use: installed where this user may, else named.
import { accessSync, constants, existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { command } from "./command.mjs";

/** By package: whether what it brings is there. Most bring a command of the same name. */
const PACKAGES = {
  chromium: () => isOnPath("chromium"),
  curl: () => isOnPath("curl"),
  "etcd-client": () => isOnPath("etcdctl"),
  "etcd-server": () => isOnPath("etcd"),
  faketime: () => isOnPath("faketime"),
  git: () => isOnPath("git"),
  haproxy: () => existsSync("/usr/sbin/haproxy"),
  jq: () => isOnPath("jq"),
  nginx: () => existsSync("/usr/sbin/nginx"),
  openssl: () => isOnPath("openssl"),
  pgbouncer: () => existsSync("/usr/sbin/pgbouncer"),
  postgresql: () => isIn("/usr/lib/postgresql", (version) => `${version}/bin/postgres`),
  strace: () => isOnPath("strace"),
  systemd: () => isOnPath("systemd-analyze"),
};
// While it says no, packages that bring a service do not start it: tests start their own.
const SERVICE_POLICY = "/usr/sbin/policy-rc.d";

export const allPackages = Object.keys(PACKAGES);

/** Installs those that are missing where that is possible. Returns what to do about those that still are; null: nothing. */
export function haveSystemPackages(names, whoNeedsThem) {
  const missing = () => names.filter((name) => !PACKAGES[name]());
  const wanted = missing();
  if (wanted.length > 0 && process.getuid?.() === 0 && isOnPath("apt-get"))
    withoutServices(() => install(wanted));
  const still = missing();
  if (still.length === 0) return null;
  return (
    `missing system packages: ${still.join(", ")}. ${whoNeedsThem} (Linux). Install them with\n` +
    `    sudo apt-get update && sudo apt-get install -y ${still.join(" ")}`
  );
}

function install(names) {
  const noninteractive = { DEBIAN_FRONTEND: "noninteractive" };
  command("system packages", "apt-get", ["update", "-q"], noninteractive);
  command(
    "system packages",
    "apt-get",
    ["install", "-qy", "--no-install-recommends", ...names],
    noninteractive,
  );
}

function withoutServices(body) {
  const isOurs = !existsSync(SERVICE_POLICY);
  if (isOurs) writeFileSync(SERVICE_POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    body();
  } finally {
    if (isOurs) rmSync(SERVICE_POLICY, { force: true });
  }
}

/** Whether one of the folders in a folder holds the file. */
function isIn(folder, file) {
  return existsSync(folder) && readdirSync(folder).some((name) => existsSync(join(folder, file(name))));
}

function isOnPath(name) {
  return (process.env.PATH ?? "").split(delimiter).some((folder) => {
    const file = join(folder, name);
    if (folder === "" || !existsSync(file)) return false;
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}
