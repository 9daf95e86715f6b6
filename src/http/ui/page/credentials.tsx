import { useContext, useState } from 'preact/hooks';
import type { RegistryCredentialItem } from '../../../wire/schemas.ts';
import { call, inNamespace, messageOf } from './api.ts';
import { emptyText, useListing } from './listing.ts';
import { Notify, useIsShown, useWork } from './notices.ts';
import { Confirm, Problem, Table, type Column } from './parts.tsx';
import type { Rights } from './rights.ts';
import { timeOf } from './time.ts';

/** Logins of registries, for administrators. Passwords go in and never come back. */
export function Credentials({ namespace, rights }: { readonly namespace: string; readonly rights: Rights }) {
  const path = inNamespace(namespace, 'secrets', 'registrycredentials');
  const listing = useListing<RegistryCredentialItem>(path);
  const { items, problem, again } = listing;
  const [going, setGoing] = useState<string>();
  const columns: readonly Column<RegistryCredentialItem>[] = [
    { title: 'Server', cell: ({ server }) => server },
    { title: 'User', cell: ({ username }) => username },
    { title: 'Insecure', cell: ({ allowInsecure }) => (allowInsecure ? 'Yes' : 'No') },
    { title: 'Created', cell: ({ createdAt }) => timeOf(createdAt) },
    {
      title: 'Actions',
      cell: ({ server }) =>
        rights.has('removeRegistryCredential') ? (
          <button
            type="button"
            class="danger"
            aria-label={`Remove ${server}`}
            onClick={() => setGoing(server)}
          >
            Remove …
          </button>
        ) : null,
    },
  ];
  return (
    <main>
      <h1>Registry credentials of {namespace}</h1>
      <Problem text={problem} />
      {rights.has('addRegistryCredential') ? <Add path={path} onAdded={again} /> : null}
      <Table
        caption="Registry credentials"
        columns={columns}
        items={items ?? []}
        keyOf={({ server }) => server}
        empty={emptyText(listing, 'There are none here.')}
      />
      {going === undefined ? null : (
        <Confirm
          title={`Remove the login of ${going}?`}
          verb="Remove"
          act={() => call('DELETE', `${path}/remove`, { server: going }).then(again)}
          onClose={() => setGoing(undefined)}
        >
          <p>VMs and image work in {namespace} pull from there without a login from now on.</p>
        </Confirm>
      )}
    </main>
  );
}

function Add({ path, onAdded }: { readonly path: string; readonly onAdded: () => void }) {
  const [problem, setProblem] = useState<string>();
  const [said, setSaid] = useState('');
  const isShown = useIsShown();
  const notify = useContext(Notify);
  const { isBusy, begin } = useWork('Add a login', {
    onFailure: (error) => setProblem(messageOf(error)),
  });
  const submit = (event: SubmitEvent): void => {
    event.preventDefault();
    if (isBusy) return;
    const form = event.currentTarget as HTMLFormElement;
    const given = new FormData(form);
    setProblem(undefined);
    setSaid('');
    const body = {
      server: given.get('server'),
      username: given.get('username'),
      password: given.get('password'),
      replace: given.get('replace') === 'on',
      allowInsecure: given.get('insecure') === 'on',
      verify: true,
      verifyOnlyPublic: true,
    };
    begin(async () => {
      const { warnings } = await call('POST', `${path}/add`, body);
      if (!isShown()) return warnings.forEach((warning) => notify(`Add a login: ${warning}`));
      form.reset();
      setSaid(['Added.', ...warnings].join(' '));
      onAdded();
    });
  };
  return (
    <details>
      <summary>Add a login</summary>
      <form onSubmit={submit}>
        <label for="server">Server</label>
        <input
          id="server"
          name="server"
          required
          placeholder="https://registry.example.com"
          autocomplete="off"
        />
        <label for="username">User</label>
        <input id="username" name="username" required autocomplete="off" />
        <label for="password">Password</label>
        <input id="password" name="password" type="password" required autocomplete="new-password" />
        <label class="check">
          <input type="checkbox" name="replace" /> Replace the login that is there
        </label>
        <label class="check">
          <input type="checkbox" name="insecure" /> Insecure: plain HTTP, or a certificate that is not
          verified
        </label>
        <Problem text={problem} />
        <p role="status" class="help">
          {said}
        </p>
        <button class="main" aria-disabled={isBusy}>
          Add
        </button>
      </form>
    </details>
  );
}
