// Package demo shows Fairlead at work on one Linux machine, without root: it
// starts the development cluster and the controller, stands in for pods with
// HTTP servers of its own, runs the commands that a user would type, prints
// them with their output, and checks that each did what was promised. It uses
// no way into the program that users do not have, touches no cluster but its
// own, and leaves nothing behind unless asked to.
package demo
