"""What CP-SAT and MILP have in common: orders, stages, products of quantities, and the outcome.

A *session* (`session`) minimises one quantity of one model under limits on others. Everything else is
done with such solves: ties by further quantities (`stages`), energy × latency (`products`), execution
orders and the final outcome (`engine`).
"""
