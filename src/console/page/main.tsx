/** The web console: the page that the box serves to a technician's phone or an operator's desk. */
import { render } from 'preact';
import { App } from './app.tsx';

const page = document.getElementById('page');
if (page === null) throw new Error('index.html has no place for the page');
page.replaceChildren();
render(<App />, page);
