//go:build !onlyadmission

// Empty: with an assembly file in the package Go lets functions without a body be linked by name.
