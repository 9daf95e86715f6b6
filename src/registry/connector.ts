import { lookup, type LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { buildConnector } from 'undici';

/**
 * Called with every host before it is connected to, and the addresses that its name has then; one of them is taken. What it throws
 * ends the call with nothing sent.
 */
export type BeforeConnect = (host: string, addresses: readonly string[]) => void;

/** Connections that are told of before they are made: to the registry, its token service and wherever it redirects to. */
export function toldConnector(
  options: buildConnector.BuildOptions,
  beforeConnect: BeforeConnect,
): buildConnector.connector {
  // Between this look and the connection no other one is made that could have another answer.
  const told: LookupFunction = (hostname, lookupOptions, callback) => {
    lookup(hostname, { ...lookupOptions, all: true }, (error, found) => {
      const failure = error ?? thrownBy(() => beforeConnect(hostname, found.map(addressOf)));
      const [first] = found ?? [];
      if (failure !== undefined || first === undefined) callback(failure ?? new Error('no address'), '');
      else if (lookupOptions.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
  };
  const connect = buildConnector({ ...options, lookup: told });
  return (target, callback) => {
    const host = target.hostname.replace(/^\[(.*)\]$/, '$1');
    // An address is not looked up.
    const failure = isIP(host) === 0 ? undefined : thrownBy(() => beforeConnect(host, [host]));
    if (failure === undefined) connect(target, callback);
    else callback(failure, null);
  };
}

function addressOf({ address }: LookupAddress): string {
  return address;
}

function thrownBy(call: () => void): Error | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error));
  }
}
