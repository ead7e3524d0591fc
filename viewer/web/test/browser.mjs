// Tests of the page in a browser. Each test acts like a user, with keys and a pointer, and checks what a user
// would see. A new test is lines of testdata, unless it has to compute.
import './script.mjs'
import './values.mjs'
import './access.mjs'
import './charts.mjs'
import './exported.mjs'
import './large.mjs'
import './server.mjs'
