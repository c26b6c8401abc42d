import assert from "node:assert/strict";
import { test } from "node:test";
import { ConfigError, type Environment, readConfig, type ServeFlags, strangeVariables } from "./config.js";

const secret = "sup3r-s3cret-value";

test("flags come before the environment, the environment before the default", () => {
  const env = { HOLDFAST_PORT: "5000", HOLDFAST_DATA: "/data", HOLDFAST_HOST: "" };
  const { port, host, store, tokens, adminToken } = readConfig({ port: "6000" }, env);
  assert.deepEqual([port, host, store], [6000, "127.0.0.1", "sqlite:/data/holdfast.db"]);
  assert.deepEqual([tokens, adminToken], [[], null]);
  assert.equal(readConfig({}, {}).port, 4280);
  assert.equal(readConfig({ store: "memory:" }, { HOLDFAST_STORE: "sqlite:/x" }).store, "memory:");
});

test("an empty flag counts as not set", () => {
  const empty = { host: "", port: "", data: "", store: "", tlsCert: "", tlsKey: "" };
  assert.deepEqual(readConfig(empty, {}), readConfig({}, {}));
  assert.equal(readConfig(empty, { HOLDFAST_DATA: "/data" }).store, "sqlite:/data/holdfast.db");
});

test("tokens are name:secret[:role][:reentrant]", () => {
  const text = "runner-1:secret-a, viewer:secret-b:observer,ci:secret-c:worker:reentrant,a:b=:reentrant";
  assert.deepEqual(readConfig({}, { HOLDFAST_TOKENS: text }).tokens, [
    { name: "runner-1", secret: "secret-a", role: "worker", reentrant: false },
    { name: "viewer", secret: "secret-b", role: "observer", reentrant: false },
    { name: "ci", secret: "secret-c", role: "worker", reentrant: true },
    { name: "a", secret: "b=", role: "worker", reentrant: true },
  ]);
});

test("switches and origins are read as they are meant", () => {
  for (const [text, on] of [
    ["1", true],
    ["true", true],
    ["0", false],
    ["false", false],
    ["", false],
  ] as const)
    assert.equal(readConfig({}, { HOLDFAST_TRUST_PROXY: text }).trustProxy, on, text);
  const origins = readConfig({}, { HOLDFAST_CORS_ORIGINS: "https://a.example, http://localhost:3000" });
  assert.deepEqual(origins.corsOrigins, ["https://a.example", "http://localhost:3000"]);
  assert.deepEqual(readConfig({}, { HOLDFAST_CORS_ORIGINS: "*" }).corsOrigins, ["*"]);
});

test("a variable that is nearly ours is told with the one that may be meant", () => {
  const known = { HOLDFAST_PORT: "1", HOLDFAST_TOKEN: "t", HOLDFAST_URL: "u", HOLDFAST_LOG_LEVEL: "info" };
  assert.deepEqual(strangeVariables({ ...known, PATH: "/bin" }), []);
  assert.deepEqual(
    strangeVariables({ ...known, HOLDFAST_PROT: "2", HOLDFAST_TTL_MAX: "3", HOLDFAST_QQ: "4" }),
    [
      "HOLDFAST_PROT is not a setting of Holdfast: did you mean HOLDFAST_PORT?",
      "HOLDFAST_TTL_MAX is not a setting of Holdfast: did you mean HOLDFAST_TTL_MAX_SECONDS?",
      "HOLDFAST_QQ is not a setting of Holdfast",
    ],
  );
});

const wrong: [flags: ServeFlags, env: Environment, says: RegExp][] = [
  [{ port: "eighty" }, {}, /--port=eighty is not a whole number from 0 to 65535/],
  [{ port: "-1" }, {}, /--port/],
  [{}, { HOLDFAST_PORT: "70000" }, /HOLDFAST_PORT=70000/],
  [{}, { HOLDFAST_PORT: "1e3" }, /HOLDFAST_PORT=1e3/],
  [{}, { HOLDFAST_TOKENS: secret }, /HOLDFAST_TOKENS entry 1: write name:secret/],
  [{}, { HOLDFAST_TOKENS: `a:b,${secret}!:x` }, /HOLDFAST_TOKENS entry 2: the name must/],
  [
    {},
    { HOLDFAST_TOKENS: `ok:fine,runner:${secret} x` },
    /HOLDFAST_TOKENS entry 2 \(runner\): the secret may/,
  ],
  [{}, { HOLDFAST_TOKENS: "runner:" }, /entry 1 \(runner\): the secret may/],
  [{}, { HOLDFAST_TOKENS: `runner:${secret}:boss` }, /\(runner\): after the secret come a role/],
  [{}, { HOLDFAST_TOKENS: `runner:${secret}:worker:reentrant:x` }, /\(runner\): after the secret/],
  [{}, { HOLDFAST_TOKENS: `runner:${secret}:operator` }, /\(runner\): after the secret/],
  [{}, { HOLDFAST_TOKENS: `a:${secret},a:y` }, /the name a stands twice/],
  [{}, { HOLDFAST_TOKENS: `a:${secret},b:${secret}` }, /\(b\): the same secret stands twice/],
  [{}, { HOLDFAST_TOKENS: `operator:${secret}` }, /operator is the holder of HOLDFAST_ADMIN_TOKEN/],
  [{}, { HOLDFAST_TOKENS: `a:${secret}`, HOLDFAST_ADMIN_TOKEN: secret }, /also the secret of a/],
  [{}, { HOLDFAST_ADMIN_TOKEN: `${secret} ` }, /HOLDFAST_ADMIN_TOKEN may hold/],
  [
    { store: "mysql:x" },
    {},
    /--store mysql:x is no store: use sqlite:FILE, postgres:\/\/…, etcd:.* or memory:/,
  ],
  [{ store: "postgre://me:secret@db/x" }, {}, /--store postgre:\/\/me:…@db\/x is no store/],
  [{}, { HOLDFAST_STORE: "sqlite:" }, /HOLDFAST_STORE=sqlite: is no store/],
  [{ tlsCert: "x.pem" }, {}, /--tls-cert and --tls-key go together/],
  [{}, { HOLDFAST_LOG_LEVEL: "loud" }, /HOLDFAST_LOG_LEVEL=loud: use one of/],
  [
    {},
    { HOLDFAST_RATE_LIMIT: "many" },
    /^HOLDFAST_RATE_LIMIT=many is not a whole number from 1 to 10000000, nor off$/,
  ],
  [{}, { HOLDFAST_TRUST_PROXY: "maybe" }, /HOLDFAST_TRUST_PROXY=maybe: use 1 or true, 0 or false/],
  [{}, { HOLDFAST_CORS_ORIGINS: "foo" }, /HOLDFAST_CORS_ORIGINS: foo is no origin/],
  [{}, { HOLDFAST_CORS_ORIGINS: "* https://a.example/" }, /https:\/\/a.example\/ is no origin/],
  [{}, { HOLDFAST_OVERLOAD_MS: "0" }, /HOLDFAST_OVERLOAD_MS.*0 is not a whole number from 1/],
  [{}, { HOLDFAST_RECORD_RETENTION_SECONDS: "0" }, /HOLDFAST_RECORD_RETENTION_SECONDS=0/],
];

for (const [flags, env, says] of wrong)
  test(`${says.source} is told, without the secret`, () => {
    assert.throws(
      () => readConfig(flags, env),
      (error) => {
        assert.ok(error instanceof ConfigError);
        assert.match(error.message, says);
        assert.ok(!error.message.includes(secret), error.message);
        return true;
      },
    );
  });
