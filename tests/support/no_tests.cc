// Of a target that only compiles the headers which the tests share.
int main() { return 0; }
