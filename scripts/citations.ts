/**
 * Comments cite pages of this repository, and only such: a path that ends in `.md`, `ADR 17`, or `(spec: …)`, `(contract: …)`,
 * `(names: …)` for the pages of docs/contract. What is cited has to be there.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const pages = {
  spec: 'docs/contract/specification.md',
  contract: 'docs/contract/wire.md',
  names: 'docs/contract/names.md',
} as const;

/** Text as it is compared: without the marks and line ends of Markdown. */
function plain(text: string): string {
  return text
    .replaceAll(/[`*_"]/g, '')
    .replaceAll(/\s+/g, ' ')
    .toLowerCase();
}

/** What a citation names: its quoted phrases, or else its words without the numbers of rules. */
export function citedPhrases(citation: string): string[] {
  const quoted = [...citation.matchAll(/"([^"]+)"|`([^`]+)`/g)].map(
    ([, phrase, code]) => phrase ?? code ?? '',
  );
  if (quoted.length > 0) return quoted;
  return [citation.replace(/,? ?\brules?\b.*$/, '').replace(/[,;].*$/, '')].filter(
    (phrase) => phrase.trim() !== '',
  );
}

/** Sentences about what the text of one file cites that is not there. */
export function brokenCitations(
  text: string,
  exists: (path: string) => boolean,
  hasDecision: (number: string) => boolean,
  pageText: (page: keyof typeof pages) => string,
): string[] {
  // A citation may go on in the next line of its comment.
  const comments = [...text.matchAll(/\/\*[\s\S]*?\*\/|(?:^|\s)(?:\/\/|#).*$/gm)]
    .map(([comment]) => comment.replaceAll(/\n\s*\*/g, ' '))
    .join('\n');
  const paths = [...comments.matchAll(/[\w./-]+\.md\b/g)]
    .map(([path]) => path.replace(/^[./]+/, ''))
    .filter((path) => !exists(path))
    .map((path) => `cites ${path}, which is not there`);
  const phrases = [...comments.matchAll(/\((spec|contract|names): ([^)]+)\)/g)].flatMap(
    ([, page, citation]) => {
      const name = page as keyof typeof pages;
      const cited = citedPhrases(citation ?? '');
      if (cited.length === 0) return [`cites "${citation}" of ${pages[name]}, which names no part of it`];
      return cited
        .filter((phrase) => !plain(pageText(name)).includes(plain(phrase)))
        .map((phrase) => `cites "${phrase}" of ${pages[name]}, where it does not stand`);
    },
  );
  const decisions = [...comments.matchAll(/\bADR (\d{1,4})\b/g)]
    .map(([, number = '']) => number.padStart(4, '0'))
    .filter((number) => !hasDecision(number))
    .map((number) => `cites ADR ${Number(number)}, which is not there`);
  return [...paths, ...decisions, ...phrases];
}

function main(): void {
  const tracked = spawnSync(
    'git',
    ['ls-files', 'src', 'test', 'charts', 'containers', 'controlplane', 'scripts', '.ci', '*.config.ts'],
    {
      encoding: 'utf8',
    },
  ).stdout.split('\n');
  // The tests of this check cite what is not there.
  const readable = tracked.filter(
    (path) =>
      path !== 'test/unit/scripts/citations.test.ts' &&
      /(\.(tsx?|mjs|js|css|html|yaml|tpl|sh|mod)|\/[^./]+)$/.test(path) &&
      existsSync(path),
  );
  const decisions = new Set(readdirSync('docs/adr').map((name) => name.slice(0, 4)));
  let count = 0;
  for (const path of readable) {
    const broken = brokenCitations(
      readFileSync(path, 'utf8'),
      (cited) => [cited, join('docs', cited), join(dirname(path), cited)].some((each) => existsSync(each)),
      (number) => decisions.has(number),
      (page) => readFileSync(pages[page], 'utf8'),
    );
    for (const sentence of broken) console.error(`${path}: ${sentence}`);
    count += broken.length;
  }
  process.exitCode = count === 0 ? 0 : 1;
}

if (import.meta.main) main();
