/** Why a call got no answer, for people, with what to do next. The code stays: it is what they look up. */

const meanings: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there. Is it running? Start it with: holdfast serve",
  ENOTFOUND: "no such host. Check the URL",
  EAI_AGAIN: "the host's name could not be looked up. Check the URL and the network",
  ETIMEDOUT: "no answer in time. Check the URL and the network",
  ECONNRESET: "the connection was cut. An https server is not reached by http://",
  UND_ERR_SOCKET: "the connection was cut. An https server is not reached by http://",
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not speak TLS. Use http://",
  ERR_SSL_PACKET_LENGTH_TOO_LONG: "it does not speak TLS. Use http://",
};
const untrusted = /SELF_SIGNED|UNABLE_TO_(?:VERIFY|GET_ISSUER)/;

/** Of what `fetch` threw. */
export function whyNoAnswer(error: unknown): string {
  const cause = (error instanceof Error && error.cause) || error;
  const { code = "", message = "" } = cause as NodeJS.ErrnoException;
  if (untrusted.test(code))
    return `its certificate is not trusted (${code}). For a private authority set NODE_EXTRA_CA_CERTS to its certificate`;
  return meanings[code]?.replace(/(?=\.)/, ` (${code})`) ?? message;
}
