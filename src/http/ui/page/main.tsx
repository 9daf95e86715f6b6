import { render } from 'preact';
import { App } from './app.tsx';
import { keepFocus } from './focus.ts';

const root = document.getElementById('app');
if (root !== null) {
  keepFocus(root);
  render(<App />, root);
}
