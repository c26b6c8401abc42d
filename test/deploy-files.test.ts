// The files of deploy/ that no machine here can run: parsed and held against what they are for and against each other. The systemd
// unit is checked by systemd's own program, and its filter of system calls against those that a server makes.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import { strangeVariables } from "../src/config.js";
import { stepsOf } from "./deploy-image.js";
import { call, mainFile, startServer, temporaryDir } from "./server.js";

const root = fileURLToPath(new URL("../../", import.meta.url));
const folder = join(root, "deploy");
const read = (name: string): string => readFileSync(join(folder, name), "utf8");

/** A parsed document: fields are looked up by path, and what is not there is undefined. */
class Document {
  constructor(
    readonly where: string,
    readonly value: unknown,
  ) {}

  at(path: string): unknown {
    return path
      .split(".")
      .reduce<unknown>((value, name) => (value as Record<string, unknown> | undefined)?.[name], this.value);
  }

  /** Every field in it, with its path. */
  *fields(value: unknown = this.value, path = ""): Generator<[path: string, value: unknown]> {
    yield [path, value];
    if (typeof value !== "object" || value === null) return;
    for (const [name, inner] of Object.entries(value)) yield* this.fields(inner, `${path}.${name}`);
  }
}

/** Duplicate keys and the like are errors; so are warnings. */
function documentsIn(name: string): Document[] {
  return parseAllDocuments(read(name), { merge: true, uniqueKeys: true }).map((document, i) => {
    assert.deepEqual([...document.errors, ...document.warnings], [], `${name} document ${i}`);
    return new Document(`${name} document ${i}`, document.toJS());
  });
}

const image = stepsOf(read("Dockerfile"));
const lastOf = (word: string): string => image.filter((step) => step.word === word).at(-1)?.rest ?? "";

test("every file here is one that is checked", () => {
  const known = [
    "Dockerfile",
    "Dockerfile.dockerignore",
    "compose.yaml",
    "example.env",
    "haproxy.cfg",
    "holdfast.service",
    "kubernetes/embedded.yaml",
    "kubernetes/shared.yaml",
    "nginx.conf",
  ];
  const found = readdirSync(folder, { recursive: true, encoding: "utf8", withFileTypes: false });
  assert.deepEqual(found.filter((name) => name !== "kubernetes").sort(), known.sort());
});

describe("compose.yaml", () => {
  const [compose] = documentsIn("compose.yaml");
  assert.ok(compose !== undefined);
  const nodes = ["node-1", "node-2", "node-3"];

  test("has three nodes that are alike, a database with its data on a volume, and a proxy", () => {
    assert.deepEqual(Object.keys(compose.at("services") as object).sort(), [...nodes, "postgres", "proxy"]);
    for (const node of nodes) assert.deepEqual(compose.at(`services.${node}`), compose.at("services.node-1"));
    assert.deepEqual(compose.at("services.postgres.volumes"), ["postgres-data:/var/lib/postgresql/data"]);
    assert.ok("postgres-data" in (compose.at("volumes") as object));
    assert.deepEqual(compose.at("services.proxy.depends_on"), nodes);
  });

  test("builds the image from the clone's root, and runs it with few rights", () => {
    assert.deepEqual(compose.at("services.node-1.build"), {
      context: "..",
      dockerfile: "deploy/Dockerfile",
    });
    assert.equal(compose.at("services.node-1.read_only"), true);
    assert.deepEqual(compose.at("services.node-1.cap_drop"), ["ALL"]);
    const [own] = compose.at("services.node-1.tmpfs") as string[];
    assert.match(own ?? "", /^\/var\/lib\/holdfast:/);
  });

  test("takes every secret from the environment, and example.env names each of them", () => {
    const asked = [...read("compose.yaml").matchAll(/\$\{(\w+)/g)].map(([, name]) => name);
    const named = [...read("example.env").matchAll(/^(\w+)=(.*)$/gm)];
    assert.deepEqual([...new Set(asked)].sort(), named.map(([, name]) => name).sort());
    for (const [, name, value] of named) assert.equal(value, "", `${name} has no value`);
  });

  test("has only settings that Holdfast knows", () => {
    const environment = compose.at("services.node-1.environment") as Record<string, string>;
    assert.deepEqual(strangeVariables(environment), []);
    assert.match(
      environment["HOLDFAST_STORE"] ?? "",
      /^postgres:\/\/holdfast:\$\{[^}]+\}@postgres:5432\/holdfast$/,
    );
  });

  test("and both proxies name the same nodes, at the image's port", () => {
    const port = lastOf("EXPOSE");
    const wanted = nodes.map((node) => `${node}:${port}`);
    assert.deepEqual(
      [...read("haproxy.cfg").matchAll(/^ {2}server (\S+) (\S+)$/gm)].map(([, name, at]) => [name, at]),
      nodes.map((node, i) => [node, wanted[i]]),
    );
    assert.deepEqual(
      [...read("nginx.conf").matchAll(/^ {2}server (\S+) /gm)].map(([, at]) => at),
      wanted,
    );
    assert.deepEqual(compose.at("services.proxy.ports"), [`127.0.0.1:${port}:${port}`]);
  });
});

for (const [name, workload, replicas] of [
  ["kubernetes/shared.yaml", "Deployment", 3],
  ["kubernetes/embedded.yaml", "StatefulSet", 1],
] as const)
  describe(name, () => {
    const all = documentsIn(name);
    const kind = (wanted: string): Document => {
      const found = all.find((document) => document.at("kind") === wanted);
      assert.ok(found !== undefined, `${name} has a ${wanted}`);
      return found;
    };
    const main = kind(workload);
    const container = new Document(name, (main.at("spec.template.spec.containers") as unknown[])[0]);

    test(`is a ${workload} of ${replicas} with its Secret and its Service, all of one name`, () => {
      assert.equal(main.at("spec.replicas"), replicas);
      const labels = main.at("spec.template.metadata.labels");
      for (const document of all) {
        assert.equal(document.at("metadata.name"), main.at("metadata.name"));
        assert.deepEqual(document.at("metadata.labels"), labels);
      }
      assert.deepEqual(main.at("spec.selector.matchLabels"), labels);
      assert.deepEqual(kind("Service").at("spec.selector"), labels);
      const [from] = container.at("envFrom") as { secretRef: { name: string } }[];
      assert.equal(from?.secretRef.name, kind("Secret").at("metadata.name"));
      const ports = container.at("ports") as { containerPort: number }[];
      assert.equal(String(ports[0]?.containerPort), lastOf("EXPOSE"));
    });

    test("asks /ready for traffic, and does not restart for a store that is away", () => {
      for (const probe of ["readinessProbe", "startupProbe"])
        assert.deepEqual(container.at(`${probe}.httpGet`), { path: "/ready", port: "http" });
      assert.doesNotMatch(String(container.at("livenessProbe.httpGet.path")), /ready|health/);
    });

    test("runs without rights", () => {
      const pod = main.at("spec.template.spec") as Record<string, unknown>;
      assert.equal(pod["automountServiceAccountToken"], false);
      assert.equal(main.at("spec.template.spec.securityContext.runAsNonRoot"), true);
      assert.deepEqual(container.at("securityContext"), {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      assert.ok(container.at("resources.limits.memory"));
    });

    test("has only settings that Holdfast knows, and no secret that could be one", () => {
      const secrets = kind("Secret").at("stringData") as Record<string, string>;
      const env = (container.at("env") ?? []) as { name: string; value: string }[];
      const settings = { ...secrets, ...Object.fromEntries(env.map((one) => [one.name, one.value])) };
      assert.deepEqual(strangeVariables(settings), []);
      for (const [field, value] of Object.entries(secrets)) assert.match(value, /CHANGE-ME/, field);
    });

    test("every volume that is mounted is there", () => {
      const names = (path: string): string[] =>
        ((main.at(path) ?? []) as { name?: string; metadata?: { name: string } }[]).map(
          (one) => one.name ?? one.metadata?.name ?? "",
        );
      const there = [...names("spec.template.spec.volumes"), ...names("spec.volumeClaimTemplates")].sort();
      const mounted = (container.at("volumeMounts") as { name: string }[]).map((one) => one.name).sort();
      assert.deepEqual(mounted, there);
    });

    if (replicas > 1)
      test("keeps two of three while machines are taken away, and all while it is replaced", () => {
        const budget = kind("PodDisruptionBudget");
        assert.equal(budget.at("spec.minAvailable"), replicas - 1);
        assert.deepEqual(budget.at("spec.selector"), main.at("spec.selector"));
        assert.equal(main.at("spec.strategy.rollingUpdate.maxUnavailable"), 0);
      });
    else
      test("has its data on a volume that one machine has", () => {
        assert.equal(main.at("spec.serviceName"), kind("Service").at("metadata.name"));
        assert.deepEqual(main.at("spec.volumeClaimTemplates.0.spec.accessModes"), ["ReadWriteOnce"]);
      });
  });

describe("holdfast.service", () => {
  /** As it is, but for the program, which is not installed here, and a user that is. */
  function unit(): string {
    const path = join(temporaryDir("holdfast-unit-"), "holdfast.service");
    const text = read("holdfast.service").replace(/(?<=^ExecStart=)\S+/m, process.execPath);
    writeFileSync(path, text.replace(/^(User|Group)=holdfast$/gm, "$1=daemon"));
    return path;
  }

  test("is what systemd understands, without a word of complaint", () => {
    const { status, stdout, stderr } = spawnSync("systemd-analyze", ["verify", unit()], { encoding: "utf8" });
    assert.deepEqual([status, stdout, stderr], [0, "", ""]);
  });

  test("is hardened", () => {
    // 0 to 100: how exposed it is. An ordinary service has 96.
    const args = ["security", "--offline=true", "--no-pager", "--threshold=20", unit()];
    const { status, stdout } = spawnSync("systemd-analyze", args, { encoding: "utf8" });
    assert.equal(status, 0, stdout.split("\n").slice(-3).join("\n"));
  });

  test("allows every system call that a server makes", async () => {
    const lines = [...read("holdfast.service").matchAll(/^SystemCallFilter=(~?)(.*)$/gm)];
    const allowed = new Set<string>();
    for (const [, not, groups = ""] of lines)
      for (const name of groups.split(" ").flatMap(callsIn))
        if (not === "~") allowed.delete(name);
        else allowed.add(name);
    const log = join(temporaryDir("holdfast-calls-"), "calls");
    const server = await startServer({
      program: ["strace", "-f", "-qq", "--signal=none", "-o", log, process.execPath, mainFile],
    });
    await call(server, "POST", "/locks/traced/acquire", { token: "secret-a", body: { ttl_seconds: 60 } });
    await server.stop();
    const made = new Set(
      [...readFileSync(log, "utf8").matchAll(/^\d+ +(?:<\.\.\. )?(\w+)[( ]/gm)].map(([, name = ""]) => name),
    );
    assert.ok(made.size > 30, `${made.size}`);
    // SQLite gives its files to the owner of the data where it runs as root, as these tests may, and nowhere else.
    made.delete("fchown");
    assert.deepEqual(
      [...made].filter((name) => !allowed.has(name)),
      [],
    );
  });

  /** A group's calls, and those of the groups in it. */
  function callsIn(group: string): string[] {
    if (!group.startsWith("@")) return [group];
    const text = execFileSync("systemd-analyze", ["syscall-filter", group, "--no-pager"], {
      encoding: "utf8",
    });
    return [...text.matchAll(/^ {4}([@\w]\S*)$/gm)].flatMap(([, name = ""]) => callsIn(name));
  }
});
