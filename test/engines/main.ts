// `npm run engines`: the contract of a store, the HTTP suite and the wire's transcripts over every engine, with the servers that
// they need, and a table of engine and result at the end. Ends with 0 only if all of it is green.
import { readdirSync } from "node:fs";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { startEtcd } from "../etcd-lab.js";
import { Postgres } from "../postgres-lab.js";
import { storeVariable } from "./store-of.js";

interface Engine {
  readonly name: string;
  /** Files that run the contract of a store over it. */
  readonly contract: readonly string[];
  /** Starts what its servers need; null: the HTTP suite does not apply. */
  readonly serve: (() => Promise<{ readonly url: string; stop(): Promise<void> }>) | null;
  /** Files of the HTTP suite that it leaves out, and why. */
  readonly without: Readonly<Record<string, string>>;
  /** The wire's transcripts, where they are not those of HTTP. */
  readonly transcripts?: readonly string[];
}

const nothing = async (): Promise<void> => undefined;

const engines: readonly Engine[] = [
  {
    name: "memory",
    contract: ["src/engines/memory/store.test.js"],
    serve: async () => ({ url: "memory:", stop: nothing }),
    without: {
      "http-operate": "its backup needs a file",
      "http-departure": "it grants too fast for anybody to leave before",
    },
  },
  {
    name: "sqlite",
    contract: ["src/engines/sqlite/store.test.js"],
    serve: async () => ({ url: "", stop: nothing }),
    without: {},
  },
  {
    name: "postgres",
    contract: ["test/postgres-conformance.test.js"],
    serve: async () => {
      const server = await Postgres.start({ settings: { max_connections: 400 } });
      return { url: await server.database(), stop: () => server.stop() };
    },
    without: { "http-operate": "its backup needs a file" },
  },
  {
    name: "etcd",
    contract: ["test/etcd-contract.test.js"],
    serve: async () => {
      const lab = await startEtcd();
      return { url: `etcd://${lab.endpoints}/`, stop: () => lab.stop() };
    },
    without: { "http-operate": "its backup needs a file" },
  },
  {
    name: "git",
    contract: ["src/engines/git/store.test.js", "test/git-remote-contract.test.js"],
    serve: null,
    without: {},
    transcripts: ["test/cli-git-seed-003.test.js"],
  },
];

const dist = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));
const httpFiles = readdirSync(dist("test"))
  .filter((name) => /^http-.*\.test\.js$/.test(name))
  .sort();
const isTranscript = (name: string): boolean => name.includes("transcript");

interface Tally {
  passed: number;
  failed: number;
}

const tallyText = ({ passed, failed }: Tally): string => `${passed} passed, ${failed} failed`;

/** Runs test files and counts their leaves. */
async function tally(files: readonly string[]): Promise<Tally> {
  const count = { passed: 0, failed: 0 };
  if (files.length === 0) return count;
  const events = run({ files: files.map(dist), concurrency: 1, timeout: 15 * 60_000, forceExit: true });
  events.on("test:pass", ({ details, name, file }) => {
    if (details.type !== "suite" && name !== file) count.passed++;
  });
  events.on("test:fail", ({ details }) => {
    const cause = details.error as { failureType?: string };
    if (cause.failureType !== "subtestsFailed") count.failed++;
  });
  for await (const text of events.compose(new spec())) process.stdout.write(text);
  return count;
}

async function main(): Promise<number> {
  const { values } = parseArgs({ options: { engine: { type: "string" } } });
  const wanted = values.engine?.split(",") ?? engines.map(({ name }) => name);
  const strange = wanted.filter((name) => !engines.some((engine) => engine.name === name));
  if (strange.length > 0) throw new Error(`there is no engine ${strange.join(", ")}`);
  const rows: string[] = [];
  let isRed = false;
  for (const engine of engines.filter(({ name }) => wanted.includes(name))) {
    const { name, contract, serve, without, transcripts = [] } = engine;
    console.log(`\n== ${name}: the contract of a store`);
    const results = [await tally(contract)];
    const server = await serve?.();
    if (server !== undefined && server.url !== "") process.env[storeVariable] = server.url;
    const asked =
      server === undefined ? [] : httpFiles.filter((file) => !(file.replace(".test.js", "") in without));
    console.log(`\n== ${name}: the HTTP suite`);
    results.push(await tally(asked.filter((file) => !isTranscript(file)).map((file) => `test/${file}`)));
    console.log(`\n== ${name}: the transcripts of the wire`);
    results.push(await tally([...asked.filter(isTranscript).map((file) => `test/${file}`), ...transcripts]));
    delete process.env[storeVariable];
    await server?.stop();
    isRed ||= results.some(
      ({ passed, failed }, i) => failed > 0 || (passed === 0 && (i !== 1 || serve !== null)),
    );
    const [first, second, third] = results.map(tallyText);
    rows.push(`| ${name} | ${first} | ${serve === null ? "does not apply" : second} | ${third} |`);
    for (const [file, why] of Object.entries(without))
      rows.push(`|  | left out of HTTP: ${file} | ${why} |  |`);
  }
  console.log(`\n| engine | contract of a store | HTTP suite | transcripts of the wire |\n|---|---|---|---|`);
  for (const row of rows) console.log(row);
  return isRed ? 1 : 0;
}

process.exitCode = await main();
