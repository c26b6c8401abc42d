// Who gets what, one row per operation of the API's document, and each way in which a request can name what belongs
// to another. The document must have exactly these operations: a new one without a row fails, and so does a row that
// is left over.
import type { Call } from "../http-api.js";
import type { Role, Scene } from "./authorization-scene.js";

/**
 * What a caller gets: a status and a word of the reply (its code or its status), as far as they matter. A leading `+`
 * means that it does what it asks for; without one, nothing of the victim's space may have changed afterwards.
 */
export type Outcome = string;

export interface Outcomes {
  /** Whose things they are; where a worker is not enough, an admin or the operator. */
  readonly owner: Outcome;
  /** Another caller of the same space, whose role is enough. */
  readonly stranger: Outcome;
  /** One whose scopes cover none of the victim's names. */
  readonly outOfScope: Outcome;
  /** One of another space, where somebody else holds the same names. */
  readonly elsewhere: Outcome;
}

export interface Row extends Outcomes {
  readonly role: Role;
  /** The operator naming another space, where that differs. */
  readonly operatorElsewhere?: Outcome;
}

const no = "403 forbidden";
const none = "404 not_found";
const row = (
  role: Role,
  owner: Outcome,
  stranger: Outcome = owner,
  outOfScope: Outcome = stranger,
  elsewhere: Outcome = stranger,
): Row => ({ role, owner, stranger, outOfScope, elsewhere });

/* biome-ignore format: a table */
export const rows: Readonly<Record<string, Row>> = {
  //                    least role  owner       stranger                 other scopes  elsewhere
  acquireLock:      row("worker",   "200 held", "200 held",              no,           "200 held"),
  renewLock:        row("worker",   "+200",     "400 lease_not_current", no,           "400 lease_not_current"),
  extendLock:       row("worker",   "+200",     "400 lease_not_current", no,           "400 lease_not_current"),
  releaseLock:      row("worker",   "+200",     "400 lease_not_current", no,           "400 lease_not_current"),
  getLock:          row("observer", "200 held", "200 held",              no,           "200 held"),
  listLocks:        row("observer", "200"),
  watchLock:        row("observer", "200",      "200",                   no,           "200"),
  watchLocks:       row("observer", "200"),
  checkLock:        row("observer", "200",      "200",                   no,           "200"),
  forceReleaseLock: row("admin",    "+200",     "+200",                  no,           "200"),
  claimJob:         row("worker",   "409 held", "409 held",              no,           "409 held"),
  claimAnyJob:      row("worker",   "409 held", "409 held",              no,           "409 held"),
  heartbeatJob:     row("worker",   "+200",     "409 lease_lost",        no,           "409 lease_lost"),
  heartbeatJobs:    row("worker",   "+200",     "200 lost",              no,           "200 lost"),
  releaseJob:       row("worker",   "+200",     "409 lease_lost",        no,           "409 lease_lost"),
  getJob:           row("observer", "200",      "200",                   no,           "200"),
  listJobs:         row("observer", "200"),
  createSession:    row("worker",   "201"),
  keepaliveSession: row("worker",   "+200",     none),
  getSession:       row("worker",   "200",      none),
  deleteSession:    row("worker",   "+204",     none),
  createToken:      row("admin",    "+201",     "+201",                  no,           "+201"),
  listTokens:       row("admin",    "200"),
  revokeToken:      row("admin",    "+204",     "+204",                  "+204",       none),
  rotateToken:      row("admin",    "+200",     "+200",                  no,           none),
  whoami:           row("observer", "200"),
  listAudit:        row("admin",    "200"),
  backup:           row("operator", "200"),
  health:           row("open",     "200"),
  ready:            row("open",     "200"),
  metrics:          row("observer", "200"),
  openapi:          row("open",     "200"),
  docs:             row("open",     "200"),
  createNode:       row("worker",   "409 conflict", "409 conflict",      no,           "409 conflict"),
  listNodes:        row("observer", "200"),
  getNode:          row("observer", "200",      "200",                   no,           "200"),
  updateNode:       row("worker",   "+200",     "+200",                  no,           "+200"),
  addEdge:          row("worker",   "+200",     "+200",                  no,           "+200"),
  removeEdge:       row("worker",   "+200",     "+200",                  no,           "+200"),
  nodeHistory:      row("observer", "200",      "200",                   no,           "200"),
  unparkNode:       row("worker",   "409 conflict", "409 conflict",      no,           "409 conflict"),
  getPolicy:        row("observer", "200"),
  setPolicy:        row("admin",    "409 conflict"),
  claimNode:        row("worker",   "+200",     "409 already_claimed",   no,           "409 already_claimed"),
  renewNode:        row("worker",   "+200",     "409 lease_lost",        no,           "409 lease_lost"),
  extendNode:       row("worker",   "+200",     "409 lease_lost",        no,           "409 lease_lost"),
  reserveNode:      row("worker",   "+200",     "409 lease_lost",        no,           "409 lease_lost"),
  releaseNode:      row("worker",   "+200",     "409 already_claimed",   no,           "409 already_claimed"),
  setNodeStatus:    row("worker",   "+200",     "409 already_claimed",   no,           "409 already_claimed"),
  listQueue:        row("observer", "200"),
  nextWork:         row("worker",   "200 empty"),
  claimNodes:       row("worker",   "+200 renewed",  "200 already_claimed", "200 forbidden", "200 already_claimed"),
  renewNodes:       row("worker",   "+200 renewed",  "200 lease_lost",   "200 forbidden", "200 lease_lost"),
  releaseNodes:     row("worker",   "+200 released", "200 already_claimed", "200 forbidden", "200 already_claimed"),
};

/** One way to ask, and where it leads to something else than the row says. */
export interface Way extends Partial<Outcomes> {
  readonly way: string;
  readonly call: Call;
  readonly operatorElsewhere?: Outcome;
}

const everyByte = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
/** The same path, written as differently as may be. */
const otherwise = (name: string): string =>
  `${name.replace("path:", "path:./").replaceAll("/", "//").normalize("NFD")}/`;

function inPath(name: string, rest: Call = {}): Way[] {
  return [
    { way: "its name in the path", call: { ...rest, name } },
    { way: "its name in the path, every byte encoded", call: { ...rest, rawName: everyByte(name) } },
    { way: "its name in the path, spelt otherwise", call: { ...rest, name: otherwise(name) } },
  ];
}

function idInPath(id: string, rest: Call = {}): Way[] {
  return [
    { way: "its id in the path", call: { ...rest, name: id } },
    { way: "its id in the path, every byte encoded", call: { ...rest, rawName: everyByte(id) } },
  ];
}

/** A list's own cursor; in another space it is no cursor. */
const cursorBefore = (place: string): Way => ({
  way: "a cursor of the victim's",
  call: { query: { limit: "1000", cursor: Buffer.from(place).toString("base64url") } },
  elsewhere: "422 invalid_input",
});

const lists = (name: string): Way[] => [
  { way: "everything", call: { query: { limit: "1000" } } },
  { way: "its name as the prefix", call: { query: { prefix: name } } },
  { way: "its name as the prefix, spelt otherwise", call: { query: { prefix: name.normalize("NFD") } } },
  cursorBefore("default/path:vault"),
];

/** The session that a claim may be bound to: another's does not exist. */
const session = (name: string, session_id: string, owner: Outcome): Way => ({
  way: "the victim's session",
  call: { name, body: { session_id } },
  owner,
  stranger: none,
  elsewhere: none,
});

/** What each operation is asked with, so that only who asks decides. */
export const ways: Readonly<Record<string, (scene: Scene) => Way[]>> = {
  acquireLock: ({ lock, bound, sessionId, lockRequest, marker }) => {
    const same = { ttl_seconds: 3600, metadata: marker };
    return [
      ...inPath(lock.name, { body: {} }),
      {
        way: "the lease's id",
        call: { name: lock.name, body: { lease_id: lock.lease_id } },
        owner: "+200 acquired",
      },
      {
        way: "the key of the victim's request",
        call: { name: lock.name, headers: { "idempotency-key": lockRequest }, body: same },
        owner: "200 acquired",
      },
      session(bound.name, sessionId, "+200 acquired"),
    ];
  },
  renewLock: ({ lock: { name, lease_id } }) => inPath(name, { body: { lease_id } }),
  extendLock: ({ lock: { name, lease_id } }) => inPath(name, { body: { lease_id, ttl_seconds: 7200 } }),
  releaseLock: ({ lock: { name, lease_id } }) => inPath(name, { body: { lease_id } }),
  getLock: ({ lock }) => inPath(lock.name),
  listLocks: ({ lock }) => lists(lock.name),
  watchLock: ({ lock }) => inPath(lock.name),
  watchLocks: ({ lock }) => lists(lock.name).slice(1, 3),
  checkLock: ({ lock }) => inPath(lock.name, { body: { fencing_token: lock.fencing_token } }),
  forceReleaseLock: ({ lock }) => inPath(lock.name, { body: { reason: "taken" } }),
  claimJob: ({ job, bound, sessionId, jobRequest, marker }) => [
    ...inPath(job.job_id, { body: {} }),
    {
      way: "the key of the victim's request",
      call: {
        name: job.job_id,
        body: { ttl_seconds: 3600, metadata: marker, owner: marker, request_id: jobRequest },
      },
      owner: "200",
    },
    session(bound.name, sessionId, "+200"),
  ],
  claimAnyJob: ({ job, bound, sessionId, marker }) => [
    { way: "its name among the candidates", call: { body: { candidates: [job.job_id] } } },
    { way: "its name, spelt otherwise", call: { body: { candidates: [otherwise(job.job_id)] } } },
    {
      way: "its name behind one that is free",
      call: { body: { candidates: [`outside-${marker}`, job.job_id] } },
      owner: "+200",
      stranger: "+200",
      elsewhere: "+200",
    },
    {
      ...session("", sessionId, "+200"),
      call: { body: { candidates: [bound.name], session_id: sessionId } },
    },
  ],
  heartbeatJob: ({ job: { job_id, lease_id } }) => inPath(job_id, { body: { lease_id, progress: "stolen" } }),
  heartbeatJobs: ({ job: { job_id, lease_id } }) => [
    { way: "its name among the leases", call: { body: { leases: [{ job_id, lease_id }] } } },
    {
      way: "its name, spelt otherwise",
      call: { body: { leases: [{ job_id: otherwise(job_id), lease_id }] } },
    },
  ],
  releaseJob: ({ job: { job_id, lease_id } }) => inPath(job_id, { body: { lease_id, outcome: "done" } }),
  getJob: ({ job }) => inPath(job.job_id),
  listJobs: ({ job, marker }) => [
    ...lists(job.job_id),
    { way: "its owner's label", call: { query: { owner: marker } } },
  ],
  createSession: () => [{ way: "nothing of another", call: {} }],
  keepaliveSession: ({ sessionId }) => idInPath(sessionId),
  getSession: ({ sessionId }) => idInPath(sessionId),
  deleteSession: ({ sessionId }) => idInPath(sessionId),
  createToken: ({ marker }) => {
    const body = { name: marker, scopes: ["path:vault/*"] };
    return [
      { way: "names beyond its own", call: { body } },
      { way: "every name", call: { body: { name: marker } } },
      {
        way: "the victim's space in the body",
        call: { body: { ...body, space: "default" } },
        elsewhere: no,
        operatorElsewhere: "+201",
      },
    ];
  },
  listTokens: () => [{ way: "everything", call: {} }],
  revokeToken: ({ tokenId }) => idInPath(tokenId),
  rotateToken: ({ tokenId }) => idInPath(tokenId),
  whoami: () => [{ way: "nothing of another", call: {} }],
  listAudit: () => [
    { way: "everything", call: { query: { limit: "1000" } } },
    cursorBefore("default/0000000000000000/x"),
  ],
  backup: () => [{ way: "everything", call: {} }],
  health: () => [{ way: "nothing of another", call: {} }],
  ready: () => [{ way: "nothing of another", call: {} }],
  metrics: () => [{ way: "everything", call: {} }],
  openapi: () => [{ way: "nothing of another", call: {} }],
  docs: () => [{ way: "nothing of another", call: {} }],
  createNode: ({ node }) => [
    { way: "its id in the body", call: { body: { id: node, type: "task", title: "mine now" } } },
  ],
  listNodes: ({ node }) => [
    { way: "everything", call: { query: { limit: "1000" } } },
    { way: "its id as the prefix", call: { query: { prefix: node } } },
    { ...cursorBefore("default/vault"), elsewhere: "400 invalid_input" },
  ],
  getNode: ({ node }) => idInPath(node),
  updateNode: ({ node, nodeRevision }) =>
    idInPath(node, { body: { revision: nodeRevision, title: "mine now" } }),
  addEdge: ({ node, linked }) => [
    ...idInPath(node, { body: { type: "resolves", to: linked } }),
    { way: "its id at the other end", call: { name: linked, body: { type: "blocks", to: node } } },
  ],
  removeEdge: ({ node, linked }) => [
    ...idInPath(node, { body: { type: "relates-to", to: linked } }),
    { way: "the edge in the query", call: { name: node, query: { type: "relates-to", to: linked } } },
  ],
  nodeHistory: ({ node }) => idInPath(node),
  unparkNode: ({ node }) => idInPath(node, { body: { reason: "r" } }),
  getPolicy: () => [{ way: "nothing of another", call: {} }],
  setPolicy: () => [{ way: "another revision", call: { body: { revision: 999_999 } } }],
  claimNode: ({ node, nodeRequest }) => [
    ...idInPath(node, { body: {} }),
    {
      way: "the key of the victim's request",
      call: { name: node, headers: { "idempotency-key": nodeRequest }, body: {} },
      owner: "200",
    },
    { way: "to move it to another run", call: { name: node, body: { session: "s", rebind: true } } },
    { way: "its token", call: { name: node, body: { token: 1 } } },
  ],
  renewNode: ({ node }) => idInPath(node, { body: { token: 1 } }),
  extendNode: ({ node }) => idInPath(node, { body: { ms: 60_000 } }),
  reserveNode: ({ node }) => idInPath(node, { body: {} }),
  releaseNode: ({ node }) => idInPath(node, { body: {} }),
  setNodeStatus: ({ node }) => idInPath(node, { body: { status: "done" } }),
  listQueue: () => [
    { way: "what the victim carries", call: { query: { assignee: "victim", limit: "1000" } } },
  ],
  nextWork: ({ nodeRequest }) => [
    { way: "a type that there is none of", call: { body: { type: "question" } } },
    {
      way: "the key of the victim's request",
      call: { headers: { "idempotency-key": nodeRequest }, body: { type: "question" } },
      owner: "422 invalid_input",
    },
  ],
  claimNodes: ({ node }) => [{ way: "its id among others", call: { body: { ids: [node] } } }],
  renewNodes: ({ node }) => [
    { way: "its id among others", call: { body: { ids: [node] } } },
    {
      way: "all of the caller's own",
      call: {},
      stranger: "200",
      outOfScope: "200",
      elsewhere: "200",
    },
  ],
  releaseNodes: ({ node }) => [{ way: "its id among others", call: { body: { ids: [node] } } }],
};

/** Operations whose reply shows the victim's things to those who may see them. */
export const showing: ReadonlySet<string> = new Set([
  "getLock",
  "listLocks",
  "watchLock",
  "watchLocks",
  "getJob",
  "listJobs",
  "listNodes",
  "getNode",
  "listQueue",
]);
