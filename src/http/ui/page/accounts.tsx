import { useContext, useState } from 'preact/hooks';
import type { ServiceAccountItem } from '../../../wire/schemas.ts';
import { call, inNamespace } from './api.ts';
import { FormDialog, parameter, textOf } from './formdialog.tsx';
import { emptyText, useListing } from './listing.ts';
import { Notify, useIsShown } from './notices.ts';
import { Confirm, Problem, Table, type Column } from './parts.tsx';
import type { Rights } from './rights.ts';
import { timeOf } from './time.ts';

const newAccount = [parameter('serviceaccount', 'Name')];

/** Service accounts of a namespace; tokens are handed out by `svc3 sa token` only. */
export function Accounts({ namespace, rights }: { readonly namespace: string; readonly rights: Rights }) {
  const path = (...name: string[]): string => inNamespace(namespace, 'serviceaccounts', ...name);
  const listing = useListing<ServiceAccountItem>(path());
  const { items, problem, again } = listing;
  const [asked, setAsked] = useState<{ readonly going?: string }>();
  const [said, setSaid] = useState('');
  const isShown = useIsShown();
  const notify = useContext(Notify);
  const close = (): void => setAsked(undefined);
  const columns: readonly Column<ServiceAccountItem>[] = [
    { title: 'Name', cell: ({ name }) => name },
    { title: 'Created', cell: ({ createdAt }) => timeOf(createdAt) },
    {
      title: 'Actions',
      cell: ({ name }) =>
        rights.has('deleteServiceAccount') ? (
          <button
            type="button"
            class="danger"
            aria-label={`Delete ${name}`}
            onClick={() => setAsked({ going: name })}
          >
            Delete …
          </button>
        ) : null,
    },
  ];
  const create = async ({ serviceaccount, ...body }: Readonly<Record<string, unknown>>): Promise<void> => {
    const { warnings } = await call('POST', path(textOf(serviceaccount)), body);
    const outcome = [`Service account ${textOf(serviceaccount)} was created.`, ...warnings].join(' ');
    if (!isShown()) return warnings.length === 0 ? undefined : notify(outcome);
    setSaid(outcome);
    again();
  };
  return (
    <main>
      <div class="title">
        <h1>Service accounts of {namespace}</h1>
        {rights.has('createServiceAccount') ? (
          <button type="button" class="main" onClick={() => setAsked({})}>
            New service account …
          </button>
        ) : null}
      </div>
      <Problem text={problem} />
      <p role="status" class="help">
        {said}
      </p>
      <Table
        caption="Service accounts"
        columns={columns}
        items={items ?? []}
        keyOf={({ name }) => name}
        empty={emptyText(listing, 'There are none here.')}
      />
      {asked === undefined || asked.going !== undefined ? null : (
        <FormDialog
          title={`New service account in ${namespace}`}
          schema="ServiceAccountRequest"
          before={newAccount}
          verb="Create"
          send={create}
          onClose={close}
        />
      )}
      {asked?.going === undefined ? null : (
        <Confirm
          title={`Delete ${asked.going}?`}
          verb="Delete"
          act={() => call('DELETE', path(asked.going ?? '')).then(again)}
          onClose={close}
        >
          <p>Its tokens end at once, and with them what is open: consoles, streams, sessions of this page.</p>
        </Confirm>
      )}
    </main>
  );
}
