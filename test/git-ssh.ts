// Stands in for ssh between a clone and its remote, which is a directory here, and does to a push what bad networks do.
//   node git-ssh.js FATES HOST "git-receive-pack '/path'"
// FATES is a file with one word per connection to come; none left: it passes. Looks are struck by `away` only.
//   pass        as it is                 lose-reply  the remote does it, and nobody is told
//   cut         it never arrives         hang        the remote does it, and the connection stands open, silent
//   away        the remote is not reached
//   late-loss   as lose-reply, once there is a file FATES.go; FATES.done says that the remote has done it
//   kill        the remote does it, and the git that pushed is killed before it hears of it
//   linger      as it is, but something stays behind that keeps standard error open, as a shared connection of ssh does
//   no-connect  only the push does not reach the remote, in words that a broken connection might have, too
import { spawn } from "node:child_process";
import { existsSync, readFileSync, watch, writeFileSync } from "node:fs";
import { dirname } from "node:path";

export type Fate =
  | "pass"
  | "lose-reply"
  | "cut"
  | "hang"
  | "away"
  | "late-loss"
  | "kill"
  | "linger"
  | "no-connect";

const [fates, , command = ""] = process.argv.slice(2);
if (fates !== undefined && /git-ssh\.js$/.test(process.argv[1] ?? "")) connect(fates);

function connect(file: string): void {
  const isPush = command.startsWith("git-receive-pack");
  const fate = fateFor(file, isPush);
  if (fate === "away") {
    process.stderr.write("ssh: connect to host: No route to host\n");
    process.exit(255);
  }
  if (fate === "no-connect") {
    process.stderr.write("ssh: connect to host there port 22: Connection timed out\n");
    process.exit(255);
  }
  if (fate === "linger")
    spawn("sleep", ["60"], { detached: true, stdio: ["ignore", "ignore", "inherit"] }).unref();
  const [, program = "", path = ""] = /^git-(\S+) '(.*)'$/.exec(command) ?? [];
  const server = spawn("git", [program, path], { stdio: ["pipe", "pipe", "inherit"] });
  server.stdin.on("error", () => undefined);
  let isHeard = true;
  process.stdin.on("data", (chunk: Buffer) => {
    // What comes from the caller's side after the greeting is the push itself.
    if (fate !== "pass" && fate !== "linger") isHeard = false;
    if (fate === "cut") {
      server.kill("SIGKILL");
      process.exit(255);
    }
    server.stdin.write(chunk);
  });
  process.stdin.on("end", () => server.stdin.end());
  server.stdout.on("data", (chunk: Buffer) => {
    if (isHeard) process.stdout.write(chunk);
  });
  server.on("close", (code) => {
    if (fate === "hang") setInterval(() => undefined, 1_000_000);
    else if (fate === "late-loss") loseWhenTold(file);
    else {
      if (fate === "kill") process.kill(pusher(), "SIGKILL");
      process.exit(fate === "pass" || fate === "linger" ? (code ?? 1) : 255);
    }
  });
}

function loseWhenTold(file: string): void {
  const end = (): void => {
    if (existsSync(`${file}.go`)) process.exit(255);
  };
  watch(dirname(file), end);
  writeFileSync(`${file}.done`, "");
  end();
}

/** The git that started this, through a shell or not. */
function pusher(): number {
  let pid = process.ppid;
  while (!readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("\0push\0"))
    pid = Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  return pid;
}

/** The next one; the last stays if it is repeated for ever with a `*`. */
function fateFor(file: string, isPush: boolean): Fate {
  const words = readFileSync(file, "utf8").split("\n").filter(Boolean);
  const [first = "pass", ...rest] = words;
  if (first.endsWith("*")) return first === "away*" || isPush ? (first.slice(0, -1) as Fate) : "pass";
  if (!isPush && first !== "away") return "pass";
  writeFileSync(file, rest.join("\n"));
  return first as Fate;
}
