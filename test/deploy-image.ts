// Reads deploy/Dockerfile and carries out its steps without Docker: each stage is an empty directory that stands for its file system,
// COPY copies into it, RUN runs a shell in it. What a base image brings (Node, a user) is what this machine has.
import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, statSync } from "node:fs";
import { basename, join, posix } from "node:path";
import { promisify } from "node:util";
import { temporaryDir } from "./server.js";

export interface Step {
  readonly word: string;
  readonly rest: string;
}

/** The instructions of a Dockerfile, continued lines joined, comments left out. */
export function stepsOf(text: string): Step[] {
  const joined = text.replace(/^\s*#.*\n/gm, "").replace(/\\\n\s*/g, "");
  return joined.split("\n").flatMap((line) => {
    const match = /^([A-Z]+)\s+(.*)$/.exec(line.trim());
    if (match === null && line.trim() !== "") throw new Error(`not an instruction: ${line}`);
    return match === null ? [] : [{ word: match[1] ?? "", rest: match[2] ?? "" }];
  });
}

/** What is left when all steps are done: the last stage. */
export interface Image {
  /** Stands for `/` of the container. */
  readonly root: string;
  readonly env: Readonly<Record<string, string>>;
  readonly user: string | null;
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly healthcheck: readonly string[];
  readonly ports: readonly string[];
  /** The commands that ran, in order. */
  readonly ran: readonly string[];
}

const run = promisify(execFile);

export async function buildImage(dockerfile: string, context: string): Promise<Image> {
  const stages = new Map<string, Stage>();
  let stage: Stage | undefined;
  const ran: string[] = [];
  for (const { word, rest } of stepsOf(readFileSync(dockerfile, "utf8"))) {
    if (word === "ARG") continue;
    if (word === "FROM") {
      const name = / AS (\w+)$/.exec(rest)?.[1] ?? "";
      stage = new Stage(context, stages);
      stages.set(name, stage);
    } else if (stage === undefined) throw new Error(`${word} before FROM`);
    else if (word === "RUN") ran.push(await stage.run(rest));
    else stage.take(word, rest);
  }
  if (stage === undefined) throw new Error("no FROM");
  return { ...stage.told(), ran };
}

/** Flags that only the container's own users can carry out. */
const ofOtherUsers = / -o node -g node/;

class Stage {
  readonly #root = temporaryDir("holdfast-image-");
  #workdir = "/";
  readonly #env: Record<string, string> = {};
  readonly #ports: string[] = [];
  readonly #said = new Map<string, readonly string[]>();
  #user: string | null = null;

  constructor(
    readonly context: string,
    readonly stages: ReadonlyMap<string, Stage>,
  ) {}

  take(word: string, rest: string): void {
    if (word === "WORKDIR") {
      this.#workdir = posix.resolve(this.#workdir, rest);
      mkdirSync(this.#at(this.#workdir), { recursive: true });
    } else if (word === "COPY") this.#copy(rest);
    else if (word === "ENV")
      for (const [, name = "", value = ""] of rest.matchAll(/(\w+)=(\S+)/g)) this.#env[name] = value;
    else if (word === "USER") this.#user = rest;
    else if (word === "EXPOSE") this.#ports.push(rest);
    else if (word === "HEALTHCHECK" || word === "ENTRYPOINT" || word === "CMD")
      this.#said.set(word, JSON.parse(rest.slice(rest.indexOf("["))));
    else if (word !== "VOLUME") throw new Error(`${word} is not known here`);
  }

  #copy(rest: string): void {
    const words = rest.split(/\s+/);
    const from = /^--from=(\w+)$/.exec(words[0] ?? "")?.[1];
    const other = from === undefined ? undefined : this.stages.get(from);
    if (from !== undefined && other === undefined) throw new Error(`no stage ${from}`);
    const sources = from === undefined ? words : words.slice(1);
    const target = sources.pop() ?? "";
    const to = this.#at(posix.resolve(this.#workdir, target));
    for (const source of sources) {
      const file = other === undefined ? join(this.context, source) : other.#at(source);
      // A folder's content is copied, a file keeps its name where the target is a folder.
      const isInto = !statSync(file).isDirectory() && target.endsWith("/");
      cpSync(file, isInto ? join(to, basename(source)) : to, { recursive: true });
    }
  }

  async run(command: string): Promise<string> {
    const here = command.replace(ofOtherUsers, "").replaceAll(/(?<=\s)\/(?=var\/)/g, `${this.#root}/`);
    mkdirSync(this.#at("/var/lib"), { recursive: true });
    await run("sh", ["-ec", here], {
      cwd: this.#at(this.#workdir),
      env: { PATH: process.env.PATH, HOME: process.env.HOME, ...this.#env },
      maxBuffer: 10 ** 7,
    });
    return command;
  }

  told(): Omit<Image, "ran"> {
    const said = (word: string): readonly string[] => this.#said.get(word) ?? [];
    return {
      root: this.#root,
      env: this.#env,
      user: this.#user,
      entrypoint: said("ENTRYPOINT"),
      cmd: said("CMD"),
      healthcheck: said("HEALTHCHECK"),
      ports: this.#ports,
    };
  }

  #at(path: string): string {
    return join(this.#root, path);
  }
}
