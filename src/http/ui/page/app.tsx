import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { Accounts } from './accounts.tsx';
import { ApiError, call, messageOf, whenSignedOut } from './api.ts';
import { Configs } from './configs.tsx';
import { Credentials } from './credentials.tsx';
import { Deploy } from './deploy.tsx';
import { Disks } from './disks.tsx';
import { focusHeading } from './focus.ts';
import type { Kind } from './items.ts';
import { follow, type LiveState, nothingKnown } from './live.ts';
import { Notify, useNotices } from './notices.ts';
import { Act, Notices, Problem } from './parts.tsx';
import { codeIn, linkTo, placeOf, type Place, type View } from './place.ts';
import { Nodes } from './nodes.tsx';
import { Pools } from './pools.tsx';
import { forgetRights, mayNot, type Rights, useRights } from './rights.ts';
import { type Sendings, useSendings } from './sendings.ts';
import {
  beginSession,
  endSession,
  followTabs,
  isStillSignedIn,
  type Namespaces,
  type Session,
  type Shared,
  showSession,
} from './session.ts';
import { ChangeUser, type Offer, SignIn } from './signin.tsx';
import { OneVm } from './vm.tsx';
import { Vms } from './vms.tsx';

/** Who the browser already is: by the code of the address, else by its cookie. */
async function findSession(): Promise<Session> {
  const code = codeIn(location.hash);
  if (code === undefined) return showSession();
  history.replaceState(null, '', location.pathname);
  return beginSession({ code });
}

export function App() {
  const [session, setSession] = useState<Session>();
  const [reason, setReason] = useState<string>();
  const [isAsked, setAsked] = useState(false);
  const [offer, setOffer] = useState<Offer>();

  useEffect(() => {
    // An address of svc3 ui that is opened where the page is already: only its fragment is new.
    const move = (): void => {
      if (codeIn(location.hash) !== undefined) location.reload();
    };
    addEventListener('hashchange', move);
    return () => removeEventListener('hashchange', move);
  }, []);

  useEffect(() => {
    const code = codeIn(location.hash);
    findSession()
      .then(setSession)
      // Who comes for the first time has no session: that is nothing to tell.
      .catch((error: unknown) => {
        if (code !== undefined && error instanceof ApiError && error.status === 409)
          return setOffer({ code, text: error.message });
        const isNew = error instanceof ApiError && error.status === 401 && code === undefined;
        setReason(isNew ? undefined : messageOf(error));
      })
      .finally(() => {
        setAsked(true);
        whenSignedOut((message) => {
          setReason(message);
          setSession(undefined);
        });
      });
  }, []);

  const user = session?.user;
  useEffect(() => (isAsked ? followTabs(user) : undefined), [isAsked, user]);

  if (!isAsked)
    return (
      <main class="signin">
        <h1>svc3</h1>
        <p>Loading …</p>
      </main>
    );
  if (session === undefined && offer !== undefined)
    return (
      <ChangeUser
        offer={offer}
        onSession={(chosen) => {
          // It is answered: who signs out later is not asked again.
          setOffer(undefined);
          setSession(chosen);
        }}
      />
    );
  if (session === undefined) return <SignIn reason={reason} onSession={setSession} />;
  return (
    <SignedIn
      session={session}
      onSignOut={() => {
        setReason(undefined);
        setSession(undefined);
      }}
    />
  );
}

function usePlace() {
  const [place, setPlace] = useState(() => placeOf(location.hash));
  useEffect(() => {
    const move = (): void => setPlace(placeOf(location.hash));
    addEventListener('hashchange', move);
    return () => removeEventListener('hashchange', move);
  }, []);
  const first = useRef(place);
  useEffect(() => {
    document.title = `${document.querySelector('main h1')?.textContent ?? 'svc3'} – svc3`;
    // Who followed a link reads on where it leads to.
    if (place !== first.current) focusHeading();
  }, [place]);
  return place;
}

const storedNamespace = 'svc3-namespace';

function usualNamespace({ items }: Namespaces, { defaultNamespace }: Session): string {
  return items.includes(defaultNamespace) ? defaultNamespace : (items[0] ?? defaultNamespace);
}

function firstNamespace(namespaces: Namespaces, session: Session): string {
  const { items, all } = namespaces;
  const kept = sessionStorage.getItem(storedNamespace);
  const isGood = kept !== null && (items.includes(kept) || (kept === '' && all));
  return isGood ? kept : usualNamespace(namespaces, session);
}

/** The namespaces that may be chosen, asked for again by `again`; tells `onFirst` the one that a new session begins with. */
function useNamespaces(
  session: Session,
  onFirst: (namespace: string) => void,
): { readonly namespaces: Namespaces; readonly again: () => void } {
  const [namespaces, setNamespaces] = useState<Namespaces>({ items: [], all: false });
  const ask = useCallback(async (): Promise<Namespaces> => {
    const { body } = await call<Namespaces>('GET', '/ui/namespaces');
    setNamespaces(body);
    return body;
  }, []);
  useEffect(() => {
    ask().then(
      (first) => onFirst(firstNamespace(first, session)),
      () => onFirst(session.defaultNamespace),
    );
  }, [ask, session, onFirst]);
  // Those that were known stay.
  const again = useCallback(() => void ask().catch(() => undefined), [ask]);
  return { namespaces, again };
}

function SignedIn({ session, onSignOut }: { readonly session: Session; readonly onSignOut: () => void }) {
  // Whoever signs in next may have other rights.
  useEffect(() => forgetRights, []);
  const [namespace, setNamespace] = useState<string>();
  const { namespaces, again } = useNamespaces(session, setNamespace);
  const [live, setLive] = useState(nothingKnown);
  const place = usePlace();

  useEffect(
    () =>
      namespace === undefined ? undefined : follow(namespace, setLive, () => isStillSignedIn(session.user)),
    [namespace, session.user],
  );

  const choose = useCallback((name: string) => {
    sessionStorage.setItem(storedNamespace, name);
    setNamespace(name);
  }, []);
  // A link to a VM leads to its namespace.
  const [linked] = place.view === 'vms' && place.parts.length === 2 ? place.parts : [];
  const followed = useRef<string>(undefined);
  useEffect(() => {
    if (namespace === undefined || followed.current === linked) return;
    followed.current = linked;
    if (linked !== undefined && namespace !== '' && namespace !== linked) choose(linked);
  }, [linked, namespace, choose]);
  // Who leaves a VM's namespace leaves the VM.
  const leaveFor = (name: string): void => {
    if (linked !== undefined && name !== '' && name !== linked) location.hash = linkTo('vms');
    choose(name);
  };
  const [refusal, setRefusal] = useState<string>();
  const chosen = namespace ?? '';
  const target = chosen === '' ? usualNamespace(namespaces, session) : chosen;
  const rights = useRights(namespace === undefined ? '' : target);
  const sendings = useSendings();
  const { notices, notify, dismiss } = useNotices();
  const shared: Shared = { session, namespaces, namespace: chosen, target };

  return (
    <>
      <Header
        shared={shared}
        rights={rights}
        view={place.view}
        onChoosing={again}
        onNamespace={leaveFor}
        // The store lets go of uploads for who is signed in alone.
        signOut={() => sendings.end().then(endSession).then(onSignOut)}
        onStay={setRefusal}
      />
      <Problem text={refusal === undefined ? undefined : `You are still signed in: ${refusal}`} />
      <p class={live.state === 'lost' ? 'lost' : 'unseen'} role="status">
        {live.state === 'lost' ? 'The connection was lost; what is shown may be old. Connecting again …' : ''}
      </p>
      <Notices notices={notices} dismiss={dismiss} />
      <Notify.Provider value={notify}>
        <Content place={place} live={live} shared={shared} rights={rights} sendings={sendings} />
      </Notify.Provider>
    </>
  );
}

/** The view that the address names. */
function Content({
  place: { view, parts },
  live: { items, isKnown, kinds },
  shared: { namespace, namespaces, target },
  rights,
  sendings,
}: {
  readonly place: Place;
  readonly live: LiveState;
  readonly shared: Shared;
  readonly rights: Rights;
  readonly sendings: Sendings;
}) {
  const [of = '', name] = parts;
  const common = { namespace, target, isKnown, rights };
  const {
    title = 'Deploy a VM',
    needs = 'deployVm',
    kind,
  } = entries.find((entry) => entry.view === view) ?? {};
  const isLeftOut = isKnown && kind !== undefined && !kinds.has(kind);
  if (isLeftOut && namespace === '') return <Refused title={name ?? title} where="all namespaces" />;
  if (name === undefined && (isLeftOut || mayNot(rights, needs)))
    return <Refused title={title} where={`namespace ${target}`} />;
  switch (view) {
    case 'vms':
      return name === undefined ? (
        <Vms items={items} namespace={namespace} isKnown={isKnown} mayDeploy={rights.has('deployVm')} />
      ) : (
        <OneVm
          key={`${of}/${name}`}
          namespace={of}
          name={name}
          vm={items.vms.get(`${of}/${name}`)}
          isKnown={isKnown}
          isListed={!isLeftOut}
        />
      );
    case 'deploy':
      return <Deploy key={target} items={items} namespace={target} />;
    case 'images':
      return <Disks key="images" kind="images" items={items.images} sendings={sendings} {...common} />;
    case 'isos':
      return <Disks key="isos" kind="isos" items={items.isos} sendings={sendings} {...common} />;
    case 'nodes':
      return (
        <Nodes
          key={target}
          namespace={target}
          namespaces={namespaces.items}
          items={items}
          isWhole={isKnown && kinds.has('vms') && namespace !== ''}
          rights={rights}
        />
      );
    case 'accounts':
      return <Accounts key={target} namespace={target} rights={rights} />;
    case 'pools':
      return <Pools items={items} {...common} />;
    case 'configs':
      return <Configs items={items} {...common} />;
    default:
      return <Credentials key={target} namespace={target} rights={rights} />;
  }
}

/** A view for who may not have it: an empty one would say that there is nothing. */
function Refused({ title, where }: { readonly title: string; readonly where: string }) {
  return (
    <main>
      <h1>{title}</h1>
      <p>
        This is not for you in {where}: your account lacks the right. Who administers the cluster can give it.
      </p>
    </main>
  );
}

interface Entry {
  readonly view: View;
  readonly title: string;
  readonly needs: string;
  /** What the view lists of the stream. */
  readonly kind?: Kind;
}

const entries: readonly Entry[] = [
  { view: 'vms', title: 'VMs', needs: 'listVms', kind: 'vms' },
  { view: 'pools', title: 'Pools', needs: 'listVmPools', kind: 'vmPools' },
  { view: 'images', title: 'Images', needs: 'listImages', kind: 'images' },
  { view: 'isos', title: 'ISOs', needs: 'listIsos', kind: 'isos' },
  { view: 'configs', title: 'Configurations', needs: 'listVmConfigs', kind: 'vmConfigs' },
  { view: 'nodes', title: 'Nodes', needs: 'listNodes' },
  { view: 'credentials', title: 'Registry credentials', needs: 'listRegistryCredentials' },
  { view: 'accounts', title: 'Service accounts', needs: 'listServiceAccounts' },
];

function Header({
  shared: { session, namespaces, namespace },
  rights,
  view,
  onChoosing,
  onNamespace,
  signOut,
  onStay,
}: {
  readonly shared: Shared;
  readonly rights: Rights;
  readonly view: View;
  /** Somebody is about to choose a namespace. */
  readonly onChoosing: () => void;
  readonly onNamespace: (name: string) => void;
  readonly signOut: () => Promise<void>;
  /** Told why somebody could not sign out. */
  readonly onStay: (why: string | undefined) => void;
}) {
  const known =
    namespaces.items.includes(namespace) || namespace === ''
      ? namespaces.items
      : [namespace, ...namespaces.items];
  return (
    <header>
      <a class="brand" href={linkTo('vms')}>
        svc3
      </a>
      <nav aria-label="Views">
        {entries
          .filter(({ needs }) => rights.has(needs))
          .map((entry) => (
            <a
              key={entry.view}
              href={linkTo(entry.view)}
              aria-current={entry.view === view ? 'page' : undefined}
            >
              {entry.title}
            </a>
          ))}
      </nav>
      <div class="who">
        <label for="namespace">Namespace</label>
        <select
          id="namespace"
          value={namespace}
          onFocus={onChoosing}
          onChange={({ currentTarget }) => onNamespace(currentTarget.value)}
        >
          {namespaces.all ? <option value="">All</option> : null}
          {known.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>
        <span class="user">{session.user}</span>
        <Act label="Sign out" act={signOut} onProblem={onStay} />
      </div>
    </header>
  );
}
