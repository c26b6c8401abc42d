// Makes the program that ships out of the compiled files: dist/bin/holdfast.cjs, and beside it one file for each group of
// commands that are called in loops and hooks. Reading one file instead of a hundred is most of what such a call costs, and
// CommonJS starts sooner than ES modules. Each file is complete by itself, and a process loads one of them, so that there
// is no class or state twice. What no bundle holds (the server, help) runs from dist/src, as do worker threads.
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { build } from "esbuild";

/** What each bundle holds: the files in faces/cli/words that declare its commands. */
const GROUPS = { lock: ["lock"], run: ["run"], guard: ["guard"], look: ["look", "job", "node"] };

/** Lists every command there is, so it is not one for a bundle with a few of them. */
const WITH_ALL = ["completion"];

/** Programs of their own, that others start by their URL: where they are below dist/src, and their bundle. */
const STARTED = { "main.js": "holdfast", "faces/cli/run/keeper.js": "keeper" };

/** Loaded by no command of a bundle, or hardly ever: left where they are. */
const LEFT_OUT = /\/engines\/(?:sqlite|memory|postgres)\//;

/** Packages that are small and needed at once. Their licences ask to go with them. */
const PACKAGES = ["commander", "smol-toml"];

const BIN = "bin";
const PROGRAM = "faces/cli/program.js";

/** Puts the bundles into `made`/bin; `made` is the compiler's output. */
export async function bundle(root, made) {
  const source = join(made, "src");
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
  const words = wordsIn(readFileSync(join(source, PROGRAM), "utf8"));
  const entries = [
    ...Object.keys(GROUPS).map((name) => ({ name, entry: join(source, PROGRAM) })),
    ...Object.entries(STARTED).map(([entry, name]) => ({ name, entry: join(source, entry) })),
  ];
  await Promise.all(
    entries.map(({ name, entry }) =>
      build({
        entryPoints: [entry],
        outfile: join(made, BIN, `${name}.cjs`),
        bundle: true,
        format: "cjs",
        platform: "node",
        target: "node20.19",
        // Names stay, for the traces of a bug; everything else is there to be read by the engine only.
        minifySyntax: true,
        minifyWhitespace: true,
        legalComments: "none",
        logLevel: "warning",
        plugins: [asShipped(source, name, version, words)],
      }),
    ),
  );
  writeFileSync(join(made, BIN, "LICENSES.txt"), licences(root));
}

/** What differs between a file of dist/src and the same in a bundle: where it is, and what it may load. */
function asShipped(source, name, version, words) {
  const below = (file) => relative(source, file);
  const isLeftOut = (file) => LEFT_OUT.test(file) || isOfOtherGroup(below(file), name, words);
  return {
    name: "as-shipped",
    setup(on) {
      on.onResolve({ filter: /./ }, ({ path, importer, kind, namespace }) => {
        if (kind === "entry-point" || importer.includes("/node_modules/")) return undefined;
        if (namespace === "choice") return { path, external: true };
        if (!path.startsWith(".")) return PACKAGES.includes(path) ? undefined : { path, external: true };
        const file = join(dirname(importer), path);
        if (name === "holdfast" && below(file) === PROGRAM) return { path: "program", namespace: "choice" };
        return isLeftOut(file) ? { path: `../src/${below(file)}`, external: true } : undefined;
      });
      on.onLoad({ filter: /./, namespace: "choice" }, () => ({ contents: choice(words) }));
      on.onLoad({ filter: /\.js$/ }, ({ path }) => {
        if (!path.startsWith(source)) return undefined;
        // Read once, when the package is built.
        if (below(path) === "faces/cli/version.js")
          return { contents: `export const version = ${JSON.stringify(version)};` };
        const text = withPlaces(readFileSync(path, "utf8"), below(path));
        return {
          contents: name === "holdfast" ? text : atOnce(text, (to) => isLeftOut(join(dirname(path), to))),
        };
      });
    },
  };
}

/** Which file in faces/cli/words declares which command, as faces/cli/program.js has it. */
function wordsIn(program) {
  const found = program.matchAll(/^\s+(\w+): \(\) => import\("\.\/words\/(\w+)\.js"\)/gm);
  return [...found].map(([, word, file]) => ({ word, file }));
}

/** Declares commands that this bundle is never asked for. */
function isOfOtherGroup(below, name, words) {
  const declares = /^faces\/cli\/words\/([\w-]+)\.js$/.exec(below)?.[1];
  return words.some(({ file }) => file === declares) && !GROUPS[name]?.includes(declares);
}

/** Stands in for faces/cli/program.js: the one with all commands, or the bundle with the one that is called. */
function choice(words) {
  const cases = words.flatMap(({ word, file }) => {
    const name = Object.keys(GROUPS).find((one) => GROUPS[one].includes(file));
    if (name === undefined || WITH_ALL.includes(word)) return [];
    return `    case "${word}": return require("./${name}.cjs").run(args);`;
  });
  // Written in another form, it would run as before, only slowly.
  if (
    !Object.values(GROUPS)
      .flat()
      .every((file) => words.some((one) => one.file === file))
  )
    throw new Error(`${PROGRAM} does not name the files of scripts/bundle.mjs`);
  return `
export async function run(args) {
  switch (args[0]) {
${cases.join("\n")}
    default: return (await import("../src/faces/cli/program.js")).run(args);
  }
}`;
}

/**
 * What is imported when it is needed becomes an import like others: it is in the same file anyway. Else each module would be
 * a function of its own around everything in it, and be parsed once more for that.
 */
function atOnce(text, isLeftOut) {
  const imports = [];
  const flat = text.replace(/\bimport\("(\.[^"]+|smol-toml|commander)"\)/g, (all, path) => {
    if (isLeftOut(path)) return all;
    imports.push(`import * as atOnce${imports.length} from "${path}";`);
    return `Promise.resolve(atOnce${imports.length - 1})`;
  });
  return `${imports.join("\n")}\n${flat}`;
}

/** A bundle's own URL is not that of the files in it. */
function withPlaces(text, below) {
  const started = text.replace(/new URL\("(\.{1,2}\/[^"]+)", import\.meta\.url\)/g, (all, path) => {
    const bundled = STARTED[join(dirname(below), path)];
    return bundled === undefined ? all : urlOf(`./${bundled}.cjs`);
  });
  return started.replaceAll("import.meta.url", `${urlOf(`../src/${below}`)}.href`);
}

const urlOf = (path) => `new URL(${JSON.stringify(path)}, require("node:url").pathToFileURL(__filename))`;

function licences(root) {
  const texts = PACKAGES.map((name) => {
    const text = readFileSync(join(root, "node_modules", name, "LICENSE"), "utf8").trim();
    return `${name}\n${"-".repeat(name.length)}\n\n${text}\n`;
  });
  return `The files beside this one hold parts of these packages:\n\n${texts.join("\n\n")}`;
}
