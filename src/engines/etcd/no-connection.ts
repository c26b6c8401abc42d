/** Why a member could not be connected to: in words that name its address, and what in the store's URL, or over there, may be wrong. */

export interface NoConnection {
  readonly what: string;
  readonly advice: string | null;
}

/** `error` is null where the connection just ended. */
export function whyNotOpened(authority: string, isTls: boolean, error: Error | null): NoConnection {
  const { code = "" } = (error ?? {}) as NodeJS.ErrnoException;
  const said = error === null ? "" : shortened(error.message || error.name);
  const cause = causes.find(
    (one) => (one.isTls ?? isTls) === isTls && (one.when.test(code) || one.when.test(said)),
  ) ?? { what: "gave no answer of etcd's", advice: portAdvice };
  return { what: `${authority} ${cause.what}${said === "" ? "" : ` (${said})`}`, advice: cause.advice };
}

/** OpenSSL tells where in its code it was, too. */
const shortened = (text: string): string => text.replace(/^.*:SSL routines:[^:]*:([^:]*):.*$/s, "$1");

interface Cause {
  /** The system's code, or what is said where there is none. */
  readonly when: RegExp;
  /** Only with TLS, or only without; else with both. */
  readonly isTls?: boolean;
  readonly what: string;
  readonly advice: string;
}

const portAdvice = "is it etcd, and is that its port for clients (2379, unless set otherwise)?";

const causes: readonly Cause[] = [
  {
    when: /^ENOTFOUND|^EAI_/,
    what: "is on a host whose name is unknown",
    advice: "correct the host in the store's URL",
  },
  {
    when: /^ECONNREFUSED$|^EHOST|^ENET|^ETIMEDOUT$/,
    what: "cannot be reached",
    advice: "is etcd running there, and are host and port in the store's URL right?",
  },
  {
    when: /SELF_SIGNED|^UNABLE_TO_|CERT_UNTRUSTED/,
    what: "has a certificate of an authority that is not known here",
    advice: "name the file of that authority as ca in the store's URL",
  },
  {
    when: /^ERR_TLS_CERT_ALTNAME_INVALID$/,
    what: "has a certificate for another name",
    advice: "use a host in the store's URL that the certificate names",
  },
  {
    when: /alert (?:number )?(?:116|42)|certificate required|bad certificate/i,
    what: "asks for a certificate",
    advice: "name the files of one as cert and key in the store's URL",
  },
  {
    when: /^$|^ECONNRESET$|^EPROTO$|^ERR_SSL|^ERR_HTTP2/,
    isTls: true,
    what: "did not agree on TLS",
    advice:
      "if etcd has no TLS there, take tls, ca and cert out of the store's URL; else see that it is its port for clients, and that it does not ask for a certificate (cert and key)",
  },
  {
    when: /^$|^ECONNRESET$|^EPIPE$/,
    isTls: false,
    what: "closed the connection",
    advice: `${portAdvice} If it speaks TLS, add tls=1 or ca=FILE to the store's URL`,
  },
  { when: /^no answer within/, what: "did not answer in time", advice: portAdvice },
];
