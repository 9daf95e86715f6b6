import { join } from 'node:path';
import { Client, credentials, type ServiceDefinition } from '@grpc/grpc-js';
import { fromJSON } from '@grpc/proto-loader';

/** The store below a control plane of tests: what is done here looks to every watch as if somebody had done it with kubectl, finalizers or not. */
export interface Etcd {
  /** All keys that begin so, with their values. */
  list(prefix: string): Promise<EtcdEntry[]>;
  /** What of it has been written since a revision; `'0'`: all. What is gone shows in the count of keys. */
  writtenSince(prefix: string, revision: string): Promise<EtcdChanges>;
  put(key: string, value: Buffer): Promise<void>;
  /** Whether the key was there. */
  delete(key: string): Promise<boolean>;
  close(): void;
}

export interface EtcdChanges {
  /** Of now. */
  readonly revision: string;
  readonly entries: EtcdEntry[];
  /** How many keys begin so, written since or not. */
  readonly count: number;
}

export interface EtcdEntry {
  readonly key: string;
  readonly value: Buffer;
}

const field = (type: string, id: number) => ({ type, id });
const call = (name: string) => ({
  requestType: `${name}Request`,
  responseType: `${name}Response`,
  comment: '',
});

// api/etcdserverpb/rpc.proto of etcd, with the fields that are used here.
const definition = fromJSON(
  {
    nested: {
      etcdserverpb: {
        nested: {
          KV: { methods: { Range: call('Range'), Put: call('Put'), DeleteRange: call('DeleteRange') } },
          KeyValue: { fields: { key: field('bytes', 1), value: field('bytes', 5) } },
          RangeRequest: {
            fields: {
              key: field('bytes', 1),
              rangeEnd: field('bytes', 2),
              minModRevision: field('int64', 10),
            },
          },
          ResponseHeader: { fields: { revision: field('int64', 3) } },
          RangeResponse: {
            fields: {
              header: field('ResponseHeader', 1),
              kvs: { ...field('KeyValue', 2), rule: 'repeated' as const },
              count: field('int64', 4),
            },
          },
          PutRequest: { fields: { key: field('bytes', 1), value: field('bytes', 2) } },
          PutResponse: { fields: {} },
          DeleteRangeRequest: { fields: { key: field('bytes', 1) } },
          DeleteRangeResponse: { fields: { deleted: field('int64', 2) } },
        },
      },
    },
  },
  { keepCase: true, longs: String, defaults: true },
);
const methods = definition['etcdserverpb.KV'] as ServiceDefinition;

/** etcd of the control plane in this folder, on its socket. */
export function etcdOf({ dir }: { readonly dir: string }): Etcd {
  const client = new Client(`unix:${join(dir, 'etcd.sock')}`, credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
  });
  const ask = <T>(name: string, request: object): Promise<T> => {
    const { path, requestSerialize, responseDeserialize } = methods[name] as ServiceDefinition[string];
    return new Promise((resolve, reject) => {
      client.makeUnaryRequest(path, requestSerialize, responseDeserialize, request, (error, reply) =>
        error === null ? resolve(reply as T) : reject(error),
      );
    });
  };
  async function range(prefix: string, minModRevision: bigint): Promise<EtcdChanges> {
    const key = Buffer.from(prefix);
    // The first key behind all that begin so.
    const rangeEnd = Buffer.from(key);
    rangeEnd[key.length - 1] = (key.at(-1) ?? 0) + 1;
    const { header, kvs, count } = await ask<{
      header: { revision: string };
      kvs: { key: Buffer; value: Buffer }[];
      count: string;
    }>('Range', { key, rangeEnd, minModRevision: String(minModRevision) });
    const entries = kvs.map(({ key: found, value }) => ({ key: found.toString(), value }));
    return { revision: header.revision, entries, count: Number(count) };
  }
  return {
    list: async (prefix) => (await range(prefix, 0n)).entries,
    writtenSince: (prefix, revision) => range(prefix, BigInt(revision) + 1n),
    async put(key, value) {
      await ask('Put', { key: Buffer.from(key), value });
    },
    async delete(key) {
      const { deleted } = await ask<{ deleted: string }>('DeleteRange', { key: Buffer.from(key) });
      return deleted === '1';
    },
    close: () => client.close(),
  };
}
