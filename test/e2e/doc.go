// Package e2e tries the program against a real API server: one development
// cluster for all tests, the shipped CRDs, rights and admission policy, and
// `fairlead controller` as child processes that use the shipped account, are
// restarted, killed and configured as a case needs. What a test asserts is what
// a user can see: Services, events, answers on sockets, and the audit log of
// what was asked of the API server. It holds no code of the product and changes
// nothing outside its cluster, a temporary folder and addresses of 127.0.0.0/8.
//
// The names of cases point to where the requirement comes from: E-… are the
// upstream end-to-end tests of load balancers (kubernetes/kubernetes,
// test/e2e/network), the words beside them their titles.
package e2e
