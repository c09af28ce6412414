package backlog

// ProbeEvery is for the test that compares the models with the program.
const ProbeEvery = probeEvery
